"""What the adoption of one lease would do, worked out from what the cluster and the chain say (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from components.errors import BuildError
from components.labels import Object
from components.lease import lease_objects
from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from provider.adoption.found_spec import AddressPendingError, found_spec
from provider.adoption.survey import LeaseTraces
from provider.claims.leased_ips import AddressClaim, address_claims
from provider.lifecycle.lease_ports import spec_addresses
from provider.lifecycle.spec_maker import SpecMaker
from provider.protocols.chain import LeaseState
from provider.records.applied import Applied, read_applied, size_problem
from provider.records.manifests import BadRecordError, ManifestRecord, read_manifest

__all__ = ["LeasePlan", "Premises", "State", "plan_lease"]

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


def plan_lease(traces: LeaseTraces, premises: Premises) -> LeasePlan:
    """The plan of one lease. Never raises for what is wrong with the lease."""
    try:
        if traces.manifest is None:
            return _blocked(traces, "the Manifest object of its namespace is missing")
        record = read_manifest(traces.manifest)
        refused = _by_chain(record.lease, premises) or _by_record(traces, record.lease) or _by_namespace(traces)
        return refused or _adoption(traces, record, premises)
    except (AddressPendingError, BadRecordError, BuildError, SpecRefused) as error:
        return _blocked(traces, str(error))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return _blocked(traces, f"an object of the lease cannot be read: {type(error).__name__}: {error}")


def _blocked(traces: LeaseTraces, reason: str) -> LeasePlan:
    return LeasePlan(traces.name, State.BLOCKED, traces.lease, reason)


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
    return None


def _by_namespace(traces: LeaseTraces) -> LeasePlan | None:
    """The plan for a lease whose namespace is missing or terminating."""
    if traces.namespace is None:
        reason = "its namespace is missing: Lessor makes everything anew from the stored manifest when it starts"
        return _blocked(traces, reason)
    if traces.namespace["metadata"].get("deletionTimestamp"):
        return _blocked(traces, "its namespace is terminating")
    return None


def _adoption(traces: LeaseTraces, record: ManifestRecord, premises: Premises) -> LeasePlan:
    """The plan for a lease that may be adopted."""
    found = found_spec(record, traces, maker=premises.specs, addresses=premises.addresses, pools=premises.pools)
    if problem := size_problem(found.spec):
        return _blocked(traces, problem)
    objects = lease_objects(found.spec)  # raises what cannot be a stack
    applied = Applied(found.spec, "" if found.object_differences else record.form_hash(), found.withheld)
    claims = address_claims(traces.ips)
    addresses = spec_addresses(found.spec)
    unnoted = [claims[name].at(address) for name, address in addresses.items() if claims[name].address != address]
    state = State.CHANGES if found.differences else State.READY
    if state is State.READY and not unnoted and read_applied(traces.applied) == applied:
        state = State.ADOPTED
    foreign = (f"{name} is not of this lease: it stays until the namespace goes" for name in traces.foreign)
    return LeasePlan(
        traces.name,
        state,
        record.lease,
        differences=found.differences,
        notes=(*found.notes, *foreign),
        record=applied,
        addresses=tuple(unnoted),
        objects=len(objects),
    )
