"""All objects of a lease, in the order in which they are registered."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from components.access import access_objects
from components.bounds import bound_objects
from components.credentials import credentials_objects
from components.environment import environment_objects
from components.errors import BuildError
from components.found import found_parts
from components.guard import check_spec
from components.hostname import hostname_object
from components.isolation import isolation_objects
from components.labels import ADMISSION, FORM_LABEL, Object, checked_labels, lease_labels, namespace_labels
from components.leased_ip import address_objects, leased_ip_service
from components.parts import AddressPart, LeaseParts, ServicePart
from components.service import service_objects
from components.workload import workload_object
from lease.markers import first_marker
from lease.spec import LeasedIpSpec, LeaseSpec

__all__ = ["keep_built", "lease_objects", "lease_parts", "namespace_object"]


@dataclass
class _Kept:
    """The objects of the last `most` specs, those of the newest at the end."""

    most: int = 0
    parts: OrderedDict[LeaseSpec, LeaseParts] = field(default_factory=OrderedDict)


_kept = _Kept()


def keep_built(most: int = 1) -> None:
    """From now on this process keeps the objects of the last `most` specs. For a process that changes no object: an
    update asks for them five times.
    """
    _kept.most = most
    _kept.parts.clear()


def lease_parts(spec: LeaseSpec) -> LeaseParts:
    """All objects of the lease. Raises `BuildError` for a value that must not reach a cluster."""
    if not _kept.most:
        return _checked_parts(spec)
    if (kept := _kept.parts.get(spec)) is not None:
        _kept.parts.move_to_end(spec)
        return kept
    parts = _kept.parts[spec] = _checked_parts(spec)
    if len(_kept.parts) > _kept.most:
        _kept.parts.popitem(last=False)
    return parts


def _checked_parts(spec: LeaseSpec) -> LeaseParts:
    parts = found_parts(spec) if spec.found else _built_parts(spec)
    _all_different(_listed(parts))
    _check_unmarked(_listed(parts))
    return parts


def _built_parts(spec: LeaseSpec) -> LeaseParts:
    check_spec(spec)
    return LeaseParts(
        namespace=namespace_object(spec),
        credentials=(*credentials_objects(spec), *environment_objects(spec)),
        bounds=bound_objects(spec),
        policies=isolation_objects(spec),
        services=_services(spec),
        hostnames=tuple(hostname_object(spec, hostname) for hostname in spec.hostnames),
        addresses=_addresses(spec),
    )


def lease_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """The lease as one list of plain manifests: namespace, secrets, bounds, policies, then for each service access,
    workload and Services, then hostnames and leased addresses. Rendering, policies and registration use the same
    objects.
    """
    return _listed(lease_parts(spec))


def _listed(parts: LeaseParts) -> tuple[Object, ...]:
    services = (item for part in parts.services for item in (*part.access, part.workload, *part.services))
    addresses = (item for part in parts.addresses for item in (*part.shared, *part.services))
    return (
        parts.namespace,
        *parts.credentials,
        *parts.bounds,
        *parts.policies,
        *services,
        *parts.hostnames,
        *addresses,
    )


def _all_different(manifests: tuple[Object, ...]) -> None:
    """Refuse two objects with one name: `web-np` beside `web` with a node port, or one port on two leased addresses."""
    counted = Counter(f"{item['kind']} {item['metadata']['name']}" for item in manifests)
    repeated = [name for name, count in counted.items() if count > 1]
    if repeated:
        raise BuildError("names of objects", repeated, "each name once; rename a service or change an external port")


def _check_unmarked(manifests: tuple[Object, ...]) -> None:
    """Refuse a key or text that Pulumi would read as one of its special values."""
    for manifest in manifests:
        if marker := first_marker(manifest):
            place = f"a text of {manifest['kind']} {manifest['metadata']['name']}"
            raise BuildError(place, marker, "texts that Pulumi does not use as markers")


def _services(spec: LeaseSpec) -> tuple[ServicePart, ...]:
    return tuple(
        ServicePart(
            name=service.name,
            access=access_objects(spec, service),
            workload=workload_object(spec, service),
            services=service_objects(spec, service),
        )
        for service in spec.services
    )


def _addresses(spec: LeaseSpec) -> tuple[AddressPart, ...]:
    by_key: dict[str, list[LeasedIpSpec]] = {}
    for leased in spec.leased_ips:
        by_key.setdefault(leased.sharing_key, []).append(leased)
    return tuple(_address(spec, exposes) for exposes in by_key.values())


def _address(spec: LeaseSpec, exposes: list[LeasedIpSpec]) -> AddressPart:
    """The objects of one address. Of two exposes of one port the first counts, as for every other Service."""
    key, addresses = exposes[0].sharing_key, {leased.address for leased in exposes}
    if len(addresses) > 1:
        raise BuildError(f"addresses of {key!r}", sorted(addresses), "one address for a sharing key")
    first: dict[tuple[str, int, str], LeasedIpSpec] = {}
    for leased in exposes:
        first.setdefault((leased.service, leased.external_port, leased.proto), leased)
    services = tuple(leased_ip_service(spec, leased) for leased in first.values())
    return AddressPart(sharing_key=key, shared=address_objects(spec, exposes[0]), services=services)


def namespace_object(spec: LeaseSpec) -> Object:
    """The lease's Namespace (kubernetes-objects.md §2.1): labels BASE and LEASE; from form 2 on the API server admits
    no pod beyond the level `baseline`.
    """
    fences = {ADMISSION: "baseline", FORM_LABEL: str(spec.form)} if spec.fenced else {}
    labels = checked_labels(namespace_labels(spec) | lease_labels(spec.lease) | fences)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spec.namespace, "labels": labels}}
