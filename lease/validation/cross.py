"""A manifest against the chain: the hash and the group specs (sdl-and-manifest.md §4.4, §5.4; texts as recorded)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.go_quote import go_quote
from lease.groups import GroupSpec, ResourceUnit
from lease.manifest import Expose, Group, Manifest, Service
from lease.resources import EndpointKind, Resources

__all__ = ["check_version", "cross_validate"]

_SLOTS = {EndpointKind.SHARED_HTTP: "HTTP", EndpointKind.RANDOM_PORT: "PORT", EndpointKind.LEASED_IP: "IP"}


@dataclass(slots=True)
class _Unit:
    """The part of an on-chain unit that no service has used yet."""

    resources: Resources
    count: int
    endpoints: Counter[EndpointKind]


def check_version(version: bytes, expected: bytes) -> None:
    """Raise kind VERSION unless the hash of a manifest is `expected`, the deployment's hash on chain."""
    if version != expected:
        raise ManifestRefused(ManifestErrorKind.VERSION, "manifest version validation failed")


def _cross(problem: str, service: str = "") -> ManifestRefused:
    return ManifestRefused(ManifestErrorKind.CROSS, problem, service=service)


def _same_storage(manifest: Resources, chain: Resources) -> bool:
    """Compare element by element over the manifest's volumes. More volumes on chain pass, fewer do not (Go would
    crash).
    """
    sent, on_chain = manifest.storage or (), chain.storage or ()
    return len(sent) <= len(on_chain) and sent == on_chain[: len(sent)]


def _mismatch(manifest: Resources, chain: Resources) -> str:
    pairs = (
        ("CPU", (manifest.cpu_milli, manifest.cpu_attributes) == (chain.cpu_milli, chain.cpu_attributes)),
        ("GPU", (manifest.gpu_units, manifest.gpu_attributes) == (chain.gpu_units, chain.gpu_attributes)),
        (
            "Memory",
            (manifest.memory_bytes, manifest.memory_attributes) == (chain.memory_bytes, chain.memory_attributes),
        ),
        ("Storage", _same_storage(manifest, chain)),
    )
    return next((name for name, same in pairs if not same), "")


def _slots_taken(expose: Expose) -> list[EndpointKind]:
    if not expose.global_:
        return []
    first = EndpointKind.SHARED_HTTP if expose.is_ingress else EndpointKind.RANDOM_PORT
    return [first, EndpointKind.LEASED_IP] if expose.ip else [first]


def _use(service: Service, units: dict[int, _Unit], where: str) -> None:
    """Take the service's replicas and endpoints from its unit. Raises when they do not fit."""
    wanted = service.resources
    unit = units.get(wanted.id)
    if unit is None:
        raise _cross(f"{where}not found deployment group resources with ID = {wanted.id}", service.name)
    if service.count > unit.count:
        text = f"over-utilized replicas ({service.count}) > group spec resources count ({unit.count})"
        raise _cross(where + text, service.name)
    if name := _mismatch(wanted, unit.resources):
        raise _cross(f"{where}{name} resources mismatch for ID {wanted.id}", service.name)
    for expose in service.expose or ():
        for kind in _slots_taken(expose):
            if not unit.endpoints[kind]:
                raise _cross(f"{where}resource ID {wanted.id}: over-utilized {_SLOTS[kind]} endpoints", service.name)
            unit.endpoints[kind] -= 1
    unit.count -= service.count


def _open_unit(unit: ResourceUnit) -> _Unit:
    return _Unit(unit.resources, unit.count, Counter(item.kind for item in unit.resources.endpoints or ()))


def _check_leftovers(name: str, units: Sequence[_Unit]) -> None:
    for unit in units:
        where = f"group {go_quote(name)}: resource ID {unit.resources.id}: "
        for kind, slot in _SLOTS.items():
            if left := unit.endpoints[kind]:
                raise _cross(f"{where}under-utilized ({left}) {slot} endpoints")
        if unit.count:
            raise _cross(f"{where}under-utilized ({unit.count}) resources")


def _check_group(group: Group, spec: GroupSpec) -> None:
    units = {unit.resources.id: _open_unit(unit) for unit in spec.units}
    for service in group.services or ():
        _use(service, units, f"group {go_quote(group.name)}: service {go_quote(service.name)}: ")
    _check_leftovers(group.name, list(units.values()))


def cross_validate(manifest: Manifest, groups: Sequence[GroupSpec]) -> None:
    """Raise unless the manifest uses exactly what the group specs rent: kind PLAIN for other groups, CROSS for the
    rest.

    Run `validate_manifest` first. Groups are matched by name, in any order.
    """
    if len(manifest) != len(groups):
        text = f"invalid manifest: group count mismatch ({len(manifest)} != {len(groups)})"
        raise ManifestRefused(ManifestErrorKind.PLAIN, text)
    by_name = {spec.name: spec for spec in groups}
    for group in manifest:
        if group.name not in by_name:
            text = f"invalid manifest: unknown deployment group ('{group.name}')"
            raise ManifestRefused(ManifestErrorKind.PLAIN, text)
    for group in manifest:
        _check_group(group, by_name[group.name])
