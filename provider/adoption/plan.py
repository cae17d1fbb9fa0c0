"""What the adoption of one lease would do, worked out from what the cluster and the chain say (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pydantic import SecretStr

from components.errors import BuildError
from components.found import sent
from components.labels import ALLOW_SHARED_IP, MANIFEST_SERVICE, RESOURCE_VERSION, SERVICE_TARGET, Object
from components.lease import lease_objects
from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import AS_FOUND, FoundObject, LeaseSpec, ServiceSpec
from provider.adoption.comparison import manifest_differences
from provider.adoption.survey import LeaseTraces
from provider.claims.hostnames import host_claims
from provider.claims.leased_ips import AddressClaim, address_claims, wanted_addresses
from provider.claims.pools import pool_of
from provider.lifecycle.lease_hosts import spec_hosts
from provider.lifecycle.lease_ports import spec_addresses, without_ports
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.protocols.chain import LeaseState
from provider.records.applied import Applied, read_applied, size_problem
from provider.records.manifests import BadRecordError, ManifestRecord, read_manifest

__all__ = ["LeasePlan", "Premises", "State", "plan_lease"]

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 (no listener)
_APPLIED_HERE = "pulumi.com/patchFieldManager"


class State(StrEnum):
    """`READY`: the lease can be adopted, and nothing of it changes. `CHANGES`: it can be adopted, and Lessor changes
    `LeasePlan.differences` when it starts. `BLOCKED`: it cannot be adopted. `ADOPTED`: it was adopted before.
    `MANAGED`: Lessor has applied a version of it. `ENDED`, `UNKNOWN`: the chain says so. `MISSING`: the chain has a
    living lease of which the cluster holds no manifest.
    """

    READY = "ready"
    CHANGES = "changes"
    BLOCKED = "blocked"
    ADOPTED = "adopted"
    MANAGED = "managed"
    ENDED = "ended"
    UNKNOWN = "unknown"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class LeasePlan:
    """`record`: what is written as the lease's record. `addresses`: the leased addresses to note. `notes`: what the
    operator may want to know and nothing depends on.
    """

    name: str
    state: State
    lease: LeaseId | None = None
    reason: str = ""
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    record: Applied | None = None
    addresses: tuple[AddressClaim, ...] = ()
    objects: int = 0


@dataclass(frozen=True, slots=True)
class Premises:
    """What all leases share. `states`: of each lease as the chain gives it; a lease that the chain does not have is
    not among them. `addresses`: by sharing key, as far as ProviderLeasedIPs have them. `pools`: of MetalLB.
    """

    provider: str
    specs: SpecMaker
    states: Mapping[LeaseId, LeaseState]
    addresses: Mapping[str, str]
    pools: Sequence[Object]


class _Blocked(Exception):
    """The lease cannot be adopted, for this reason."""


@dataclass(slots=True)
class _Draft:
    """A plan in the making. `reapply`: what runs is not the stored manifest."""

    record: ManifestRecord
    live: Sequence[Object]
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reapply: bool = False


def plan_lease(traces: LeaseTraces, premises: Premises) -> LeasePlan:
    """The plan of one lease. Never raises for what is wrong with the lease."""
    try:
        if traces.manifest is None:
            return LeasePlan(
                traces.name, State.BLOCKED, traces.lease, "the Manifest object of its namespace is missing"
            )
        record = read_manifest(traces.manifest)
        plan = _by_chain(record.lease, premises) or _by_record(traces, record.lease)
        return plan or _drafted(traces, record, premises)
    except (_Blocked, BadRecordError, BuildError, SpecRefused) as error:
        return LeasePlan(traces.name, State.BLOCKED, traces.lease, str(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problem = f"an object of the lease cannot be read: {type(error).__name__}: {error}"
        return LeasePlan(traces.name, State.BLOCKED, traces.lease, problem)


def _by_chain(lease: LeaseId, premises: Premises) -> LeasePlan | None:
    """The plan for a lease that is not served any more, or not by this provider."""
    name, state = namespace_name(lease), premises.states.get(lease)
    if lease.provider != premises.provider:
        return LeasePlan(name, State.UNKNOWN, lease, f"it is a lease of another provider, {lease.provider}")
    if state is None:
        return LeasePlan(name, State.UNKNOWN, lease, "the chain does not have this lease")
    if state.ended:
        reason = f"the chain calls it {state.name.lower().replace('_', ' ')}: Lessor removes it after its start"
        return LeasePlan(name, State.ENDED, lease, reason)
    return None


def _by_record(traces: LeaseTraces, lease: LeaseId) -> LeasePlan | None:
    """The plan for a lease that is Lessor's already, and None for one that may be adopted, or adopted again."""
    applied = read_applied(traces.applied)
    here = any(_APPLIED_HERE in (obj["metadata"].get("annotations") or {}) for obj in traces.objects)
    if not applied.as_found and (here or applied.spec is not None or applied.attempt is not None):
        return LeasePlan(traces.name, State.MANAGED, lease, "Lessor has applied a version of it")
    if traces.namespace is None:
        raise _Blocked("its namespace is missing: Lessor makes everything anew from the stored manifest when it starts")
    if traces.namespace["metadata"].get("deletionTimestamp"):
        raise _Blocked("its namespace is terminating")
    return None


def _drafted(traces: LeaseTraces, record: ManifestRecord, premises: Premises) -> LeasePlan:
    draft = _Draft(record, traces.objects)
    spec, withheld = _spec(draft, traces, premises)
    if problem := size_problem(spec):
        raise _Blocked(problem)
    objects = lease_objects(spec)  # raises what cannot be a stack
    applied = Applied(spec, "" if draft.reapply else record.form_hash(), frozenset(withheld))
    claims = address_claims(traces.ips)
    addresses = spec_addresses(spec)
    unnoted = [claims[name].at(address) for name, address in addresses.items() if claims[name].address != address]
    draft.notes += [f"{name} is not of this lease: it stays until the namespace goes" for name in traces.foreign]
    state = State.CHANGES if draft.differences else State.READY
    if state is State.READY and not unnoted and read_applied(traces.applied) == applied:
        state = State.ADOPTED
    return LeasePlan(
        traces.name,
        state,
        record.lease,
        differences=tuple(draft.differences),
        notes=tuple(draft.notes),
        record=applied,
        addresses=tuple(unnoted),
        objects=len(objects),
    )


def _spec(draft: _Draft, traces: LeaseTraces, premises: Premises) -> tuple[LeaseSpec, set[str]]:
    """The spec as found, and the hostnames that the lease does not have."""
    record = draft.record
    claimed = {name for name, claim in host_claims(traces.hosts).items() if claim.lease == record.lease}
    given = _addresses(draft, premises)
    pools = {key: pool for key, address in given.items() if (pool := pool_of(address, premises.pools))}
    inputs = SpecInputs(record, addresses=given, form=AS_FOUND, pools=pools)
    built = premises.specs.build(inputs)
    withheld = spec_hosts(built) - claimed
    built = premises.specs.build(replace(inputs, withheld=frozenset(withheld)))
    built = without_ports(built, set(spec_addresses(built)) - _own_ports(draft, traces))
    draft.notes += [f"hostname {host} has no ProviderHost: it is not served" for host in sorted(withheld)]
    for host in sorted(claimed - spec_hosts(built)):
        draft.differences.append(f"ProviderHost {host} is not of the stored manifest: Lessor deletes it")
    for name in sorted({obj["metadata"]["name"] for obj in traces.ips} - set(spec_addresses(built))):
        draft.differences.append(f"ProviderLeasedIP {name} is not of the stored manifest: Lessor deletes it")
    if texts := manifest_differences(built, draft.live):
        draft.reapply = True
        draft.differences += texts
        draft.differences.append("Lessor applies the stored manifest when it starts: the pods of the lease restart")
    return _as_found(built, draft, traces), withheld


def _own_ports(draft: _Draft, traces: LeaseTraces) -> set[str]:
    """The names of the lease's ProviderLeasedIPs that the manifest asks for."""
    wanted = {claim.name for claim in wanted_addresses(draft.record.lease, draft.record.group)}
    missing = wanted - {obj["metadata"]["name"] for obj in traces.ips}
    draft.notes += [f"leased IP {name} has no ProviderLeasedIP: it is not served" for name in sorted(missing)]
    return wanted - missing


def _addresses(draft: _Draft, premises: Premises) -> dict[str, str]:
    """The address of each sharing key of the manifest, as MetalLB gave it to a Service. Raises `_Blocked` for a Service
    without one.
    """
    given: dict[str, str] = {}
    for service in draft.live:
        key = (service["metadata"].get("annotations") or {}).get(ALLOW_SHARED_IP)
        if service["kind"] != "Service" or key is None:
            continue
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        if not ingress or not ingress[0].get("ip"):
            raise _Blocked(f"Service {service['metadata']['name']} waits for its address: see MetalLB")
        given[key] = str(ingress[0]["ip"])
    wanted = {claim.key for claim in wanted_addresses(draft.record.lease, draft.record.group)}
    return {key: given.get(key) or premises.addresses.get(key) or _NO_ADDRESS for key in wanted}


def _as_found(built: LeaseSpec, draft: _Draft, traces: LeaseTraces) -> LeaseSpec:
    """`built` with the objects as found, and with the versions in their labels."""
    names = {service.name for service in built.services}
    kept: list[Object] = []
    left: list[Object] = []
    for obj in sorted(draft.live, key=lambda obj: (obj["kind"], obj["metadata"]["name"])):
        (kept if _belongs(obj, names) else left).append(obj)
    draft.notes += [f"{_called(obj)} is of no service of the manifest: it stays" for obj in left]
    draft.notes += [f"{name} goes with the tenant's next update" for name in _stale(built, kept)]
    live = {obj["metadata"]["name"]: obj for obj in kept if obj["kind"] in ("Deployment", "StatefulSet")}
    namespace = traces.namespace or {}
    return built.model_copy(
        update={
            "first_resource_version": _version(namespace) or built.first_resource_version,
            "services": tuple(_versioned(service, live.get(service.name)) for service in built.services),
            "found": tuple(_found(obj) for obj in (namespace, *kept)),
        }
    )


def _belongs(obj: Object, services: set[str]) -> bool:
    """Whether the object is part of the stack: of the whole lease, or of a service of the manifest."""
    labels = obj["metadata"].get("labels") or {}
    if SERVICE_TARGET in labels:
        return ALLOW_SHARED_IP in (obj["metadata"].get("annotations") or {})
    service = labels.get(MANIFEST_SERVICE)
    if service is None:
        return obj["kind"] in ("NetworkPolicy", "Ingress", "HTTPRoute")
    workload = obj["kind"] in ("Deployment", "StatefulSet")
    return service in services and (not workload or obj["metadata"]["name"] == service)


def _stale(built: LeaseSpec, kept: Iterable[Object]) -> Iterable[str]:
    wanted = {_called(obj) for obj in lease_objects(built)}
    return [_called(obj) for obj in kept if _called(obj) not in wanted]


def _versioned(service: ServiceSpec, live: Mapping[str, Any] | None) -> ServiceSpec:
    return service.model_copy(update={"resource_version": (live and _version(live)) or service.resource_version})


def _version(obj: Mapping[str, Any]) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(RESOURCE_VERSION) or "")


def _called(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"


def _found(obj: Object) -> FoundObject:
    return FoundObject(text=SecretStr(json.dumps(sent(obj), sort_keys=True)))
