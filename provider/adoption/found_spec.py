"""The spec of a lease as its objects were found, from the stored manifest and the claims (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import SecretStr

from components.found import sent
from components.labels import ALLOW_SHARED_IP, MANIFEST_SERVICE, RESOURCE_VERSION, SERVICE_TARGET, Object
from components.lease import lease_objects
from lease.spec import AS_FOUND, FoundObject, LeaseSpec, ServiceSpec
from provider.adoption.comparison import manifest_differences
from provider.adoption.survey import LeaseTraces
from provider.claims.hostnames import host_claims
from provider.claims.leased_ips import wanted_addresses
from provider.claims.pools import pool_of
from provider.errors import ProviderError
from provider.lifecycle.lease_hosts import spec_hosts
from provider.lifecycle.lease_ports import spec_addresses, without_ports
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.records.manifests import ManifestRecord

__all__ = ["AddressPendingError", "FoundSpec", "found_spec"]

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 (no listener)
_WORKLOADS = ("Deployment", "StatefulSet")
_OF_LEASE = ("NetworkPolicy", "Ingress", "HTTPRoute")
_RESTART = "Lessor applies the stored manifest when it starts: the pods of the lease restart"


class AddressPendingError(ProviderError):
    """MetalLB has not given a Service of the lease its address."""


@dataclass(frozen=True, slots=True)
class FoundSpec:
    """`spec` holds the objects as found. `withheld`: hostnames of the manifest that the lease does not have.
    `claim_differences`: what Lessor changes of the claims when it starts, `object_differences`: what it changes of the
    objects. `notes`: what an operator may want to know and nothing depends on.
    """

    spec: LeaseSpec
    withheld: frozenset[str]
    claim_differences: tuple[str, ...]
    object_differences: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        return (*self.claim_differences, *self.object_differences)


def found_spec(
    record: ManifestRecord,
    traces: LeaseTraces,
    *,
    maker: SpecMaker,
    addresses: Mapping[str, str],
    pools: Sequence[Object],
) -> FoundSpec:
    """The spec as found. `addresses`: by sharing key, as far as ProviderLeasedIPs have them. `pools`: of MetalLB.

    Raises `SpecRefused` and `BuildError` for a manifest that makes no lease, `AddressPendingError` for a Service
    without its address.
    """
    given = _key_addresses(record, traces.objects, addresses)
    of_keys = {key: pool for key, address in given.items() if (pool := pool_of(address, pools))}
    inputs = SpecInputs(record, addresses=given, form=AS_FOUND, pools=of_keys)
    claimed = {name for name, claim in host_claims(traces.hosts).items() if claim.lease == record.lease}
    withheld = spec_hosts(maker.build(inputs)) - claimed
    unclaimed = _unclaimed_ports(record, traces.ips)
    built = without_ports(maker.build(replace(inputs, withheld=frozenset(withheld))), unclaimed)
    kept, left = _parted(traces.objects, {service.name for service in built.services})
    changed = manifest_differences(built, traces.objects)
    return FoundSpec(
        spec=_with_objects(built, traces.namespace or {}, kept),
        withheld=frozenset(withheld),
        claim_differences=(
            *_lost("ProviderHost", claimed - spec_hosts(built)),
            *_lost("ProviderLeasedIP", _names(traces.ips) - set(spec_addresses(built))),
        ),
        object_differences=(*changed, _RESTART) if changed else (),
        notes=(
            *(f"leased IP {name} has no ProviderLeasedIP: it is not served" for name in sorted(unclaimed)),
            *(f"hostname {host} has no ProviderHost: it is not served" for host in sorted(withheld)),
            *(f"{_title(obj)} is of no service of the manifest: it stays" for obj in left),
            *(f"{name} goes with the tenant's next update" for name in _unwanted(built, kept)),
        ),
    )


def _key_addresses(record: ManifestRecord, live: Iterable[Object], known: Mapping[str, str]) -> dict[str, str]:
    """The address of each sharing key of the manifest: as MetalLB gave it to a Service, else the known one. Raises
    `AddressPendingError`.
    """
    given = dict(_service_addresses(live))
    wanted = {claim.key for claim in wanted_addresses(record.lease, record.group)}
    return {key: given.get(key) or known.get(key) or _NO_ADDRESS for key in wanted}


def _service_addresses(live: Iterable[Object]) -> Iterable[tuple[str, str]]:
    for service in live:
        key = (service["metadata"].get("annotations") or {}).get(ALLOW_SHARED_IP)
        if service["kind"] != "Service" or key is None:
            continue
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        if not ingress or not ingress[0].get("ip"):
            raise AddressPendingError(f"Service {service['metadata']['name']} waits for its address: see MetalLB")
        yield key, str(ingress[0]["ip"])


def _unclaimed_ports(record: ManifestRecord, ips: Iterable[Object]) -> set[str]:
    """The ports of leased addresses that the manifest asks for and that no ProviderLeasedIP claims."""
    return {claim.name for claim in wanted_addresses(record.lease, record.group)} - _names(ips)


def _names(objects: Iterable[Object]) -> set[str]:
    return {obj["metadata"]["name"] for obj in objects}


def _lost(kind: str, names: Iterable[str]) -> Iterable[str]:
    return (f"{kind} {name} is not of the stored manifest: Lessor deletes it" for name in sorted(names))


def _parted(live: Iterable[Object], services: set[str]) -> tuple[list[Object], list[Object]]:
    """The objects that are part of the stack, and the others."""
    kept: list[Object] = []
    left: list[Object] = []
    for obj in sorted(live, key=lambda obj: (obj["kind"], obj["metadata"]["name"])):
        (kept if _belongs(obj, services) else left).append(obj)
    return kept, left


def _belongs(obj: Object, services: set[str]) -> bool:
    """Whether the object is part of the stack: of the whole lease, or of a service of the manifest."""
    labels = obj["metadata"].get("labels") or {}
    if SERVICE_TARGET in labels:
        return ALLOW_SHARED_IP in (obj["metadata"].get("annotations") or {})
    service = labels.get(MANIFEST_SERVICE)
    if service is None:
        return obj["kind"] in _OF_LEASE
    return service in services and (obj["kind"] not in _WORKLOADS or obj["metadata"]["name"] == service)


def _with_objects(built: LeaseSpec, namespace: Object, kept: Sequence[Object]) -> LeaseSpec:
    """`built` with the objects as found, and with the versions in their labels."""
    live = {obj["metadata"]["name"]: obj for obj in kept if obj["kind"] in _WORKLOADS}
    return built.model_copy(
        update={
            "first_resource_version": _version(namespace) or built.first_resource_version,
            "services": tuple(_versioned(service, live.get(service.name)) for service in built.services),
            "found": tuple(_found_object(obj) for obj in (namespace, *kept)),
        }
    )


def _unwanted(built: LeaseSpec, kept: Iterable[Object]) -> Iterable[str]:
    """The objects of the stack that the manifest does not ask for."""
    wanted = {_title(obj) for obj in lease_objects(built)}
    return (_title(obj) for obj in kept if _title(obj) not in wanted)


def _versioned(service: ServiceSpec, live: Mapping[str, Any] | None) -> ServiceSpec:
    return service.model_copy(update={"resource_version": (live and _version(live)) or service.resource_version})


def _version(obj: Mapping[str, Any]) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(RESOURCE_VERSION) or "")


def _title(obj: Object) -> str:
    """Kind and name, as texts for operators have them."""
    return f"{obj['kind']} {obj['metadata']['name']}"


def _found_object(obj: Object) -> FoundObject:
    return FoundObject(text=SecretStr(json.dumps(sent(obj), sort_keys=True)))
