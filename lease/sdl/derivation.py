"""Group specs and manifest from a checked document: order, ids and endpoint numbers (sdl-and-manifest.md §2-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.manifest import Credentials, Expose, Group, Params, Permissions, Service, StorageMount, Tee
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources
from lease.sdl.order import go_sorted
from lease.sdl.profiles import Compute, Placement
from lease.sdl.sections import Document
from lease.sdl.services import RawExpose, RawParams, RawService, To
from lease.validation.manifest import expose_sort_key

__all__ = ["Derived", "derive"]

_HTTP = Endpoint(EndpointKind.SHARED_HTTP)
_PORT = Endpoint(EndpointKind.RANDOM_PORT)
_NOWHERE = (To(),)


@dataclass(slots=True)
class _Unit:
    """A unit of a group while it is collected; in 2.1 several services add to one unit."""

    profile: str
    compute: Compute
    price: Price
    count: int
    endpoints: list[Endpoint]
    shared: bool = False


@dataclass(slots=True)
class _Collected:
    """A group while it is collected; `numbers` are the ids of its units by profile."""

    placement: Placement
    units: list[_Unit] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    services: list[Service] = field(default_factory=list)
    tee: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """`profiles` maps (placement, resource id) to the compute profile that the unit came from."""

    groups: tuple[GroupSpec, ...]
    manifest: tuple[Group, ...]
    profiles: Mapping[tuple[str, int], str]


def _sequence_numbers(document: Document) -> dict[str, int]:
    """The numbers of the leased IPs: one for every `to` that is more than global, sorted; a repeated name keeps its
    last number (§2.4).
    """
    names: list[str] = []
    for name in document.deployment.keys() & document.services:  # a service that is placed nowhere need not exist
        for expose in document.services[name].expose:
            names += [to.ip for to in expose.to if to.ip or not to.global_]
    return {name: number for number, name in enumerate(sorted(names), 1)}


def _expose(raw: RawExpose, to: To, numbers: Mapping[str, int]) -> Expose:
    return Expose(
        raw.port,
        raw.as_,
        raw.proto.upper() or "TCP",
        to.service,
        to.global_,
        raw.accept,
        raw.http_options,
        to.ip,
        numbers[to.ip] if to.ip and to.global_ else 0,
    )


def _exposes(service: RawService, numbers: Mapping[str, int]) -> tuple[Expose, ...]:
    exposes = [_expose(raw, to, numbers) for raw in service.expose for to in raw.to or _NOWHERE]
    return tuple(go_sorted(exposes, expose_sort_key)) if len(exposes) > 1 else tuple(exposes)


def _endpoints(exposes: tuple[Expose, ...]) -> list[Endpoint]:
    endpoints: list[Endpoint] = []
    for expose in exposes:
        if expose.global_:
            endpoints.append(_HTTP if expose.is_ingress else _PORT)
            if expose.ip:
                endpoints.append(Endpoint(EndpointKind.LEASED_IP, expose.endpoint_sequence_number))
    return endpoints


def _resources(number: int, compute: Compute, endpoints: list[Endpoint]) -> Resources:
    return Resources(
        number,
        compute.cpu_milli,
        compute.memory_bytes,
        compute.storage,
        compute.gpu_units,
        tuple(endpoints),
        compute.cpu_attributes,
        (),
        compute.gpu_attributes,
        compute.absent,
    )


def _params(raw: RawParams) -> Params:
    mounts = [StorageMount(name, raw.storage[name].mount, raw.storage[name].read_only) for name in sorted(raw.storage)]
    permissions = None if isinstance(raw.permissions, bool) else Permissions(raw.permissions)
    return Params(tuple(mounts) or None, None, permissions, Tee(raw.tee) if raw.tee else None)


def _credentials(service: RawService, *, trim: bool) -> Credentials | None:
    """The credentials: 2.0 copies the texts and drops the e-mail address, 2.1 keeps it and trims all four (§1.6)."""
    raw = service.credentials
    if raw is None:
        return None
    if not trim:
        return Credentials(raw.host, "", raw.username, raw.password)
    return Credentials(raw.host.strip(), raw.email.strip(), raw.username.strip(), raw.password.strip())


def _service(
    name: str, raw: RawService, resources: Resources, count: int, exposes: tuple[Expose, ...], *, trim: bool
) -> Service:
    return Service(
        name,
        raw.image,
        resources,
        count,
        raw.command,
        raw.args,
        raw.env,
        exposes,
        None if raw.params is None else _params(raw.params),
        _credentials(raw, trim=trim),
    )


def _unit_number(group: _Collected, unit: _Unit, *, merge: bool) -> int:
    """The id of the unit that this service uses: its own, or in 2.1 the one that an earlier service made for the same
    profile.
    """
    if merge and unit.profile in group.numbers:
        other = group.units[group.numbers[unit.profile] - 1]
        other.count += unit.count
        other.endpoints += unit.endpoints
        other.shared = True
        return group.numbers[unit.profile]
    group.units.append(unit)
    group.numbers[unit.profile] = len(group.units)
    return len(group.units)


def _requirements(group: _Collected) -> Requirements:
    attributes = group.placement.attributes
    if group.tee:
        kept = [item for item in attributes or () if item.key != "tee/type"]
        attributes = tuple(sorted([*kept, Attribute("tee/type", group.tee)]))
    return Requirements(group.placement.signed_by, attributes)


def _group_spec(name: str, group: _Collected) -> GroupSpec:
    by_number = attrgetter("sequence_number")
    units = [
        ResourceUnit(
            _resources(number, unit.compute, go_sorted(unit.endpoints, by_number) if unit.shared else unit.endpoints),
            unit.count,
            unit.price,
        )
        for number, unit in enumerate(group.units, 1)
    ]
    return GroupSpec(name, _requirements(group), tuple(units))


def derive(document: Document) -> Derived:
    """Group specs and manifest of a document that passed `check_document`."""
    numbers = _sequence_numbers(document)
    groups: dict[str, _Collected] = {}
    for name in sorted(document.deployment.keys() & document.services):
        raw = document.services[name]
        exposes = _exposes(raw, numbers)
        endpoints = _endpoints(exposes)
        for placement_name, deployed in sorted(document.deployment[name].items()):
            placement = document.placements[placement_name]
            compute = document.compute[deployed.profile]
            group = groups.setdefault(placement_name, _Collected(placement))
            price = placement.pricing[deployed.profile]
            unit = _Unit(deployed.profile, compute, price, deployed.replicas, list(endpoints))
            number = _unit_number(group, unit, merge=document.merges_units)
            resources = _resources(number, compute, endpoints)
            group.services.append(
                _service(name, raw, resources, deployed.replicas, exposes, trim=document.merges_units)
            )
            group.tee = group.tee or (raw.params.tee if raw.params else "")
    ordered = sorted(groups.items())
    return Derived(
        tuple([_group_spec(name, group) for name, group in ordered]),
        tuple([Group(name, tuple(group.services)) for name, group in ordered]),
        {(name, number): unit.profile for name, group in ordered for number, unit in enumerate(group.units, 1)},
    )
