"""Group specs: the chain's own checks (sdl-and-manifest.md §4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lease.attributes import attribute_keys_valid
from lease.errors import GroupsInvalid
from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Resources, Volume

__all__ = ["group_problems", "validate_groups"]

_TIB = 2**40
CPU_MILLI = (10, 384_000)
GPU_UNITS = (0, 24)
MEMORY_BYTES = (2**20, 2 * _TIB)
VOLUME_BYTES = (5 * 2**20, 32 * _TIB)
MAX_GROUP_CPU_MILLI = 19_200_000
MAX_GROUP_GPU_UNITS = 1_200
MAX_GROUP_MEMORY_BYTES = 100 * _TIB
MAX_PRICE = 10_000_000
_SHOWN = {"cpu": "CPU", "gpu": "GPU", "memory": "memory", "storage": "storage"}


def _outside(name: str, value: int, limits: tuple[int, int]) -> str:
    low, high = limits
    return "" if low <= value <= high else f"unit {name} out of range: {value} is not within {low} and {high}"


def _gpu(resources: Resources) -> Iterator[str]:
    yield _outside("GPU", resources.gpu_units, GPU_UNITS)
    if not resources.gpu_units and resources.gpu_attributes:
        yield "invalid GPU state. attributes cannot be present if units == 0"
    problem = attribute_keys_valid(resources.gpu_attributes)
    yield problem and f"invalid GPU attributes: {problem}"


def _storage(volumes: Sequence[Volume]) -> Iterator[str]:
    for volume in volumes:
        yield _outside("storage", volume.size_bytes, VOLUME_BYTES)
        yield attribute_keys_valid(volume.attributes)


def _measures(resources: Resources) -> Iterator[tuple[str, Iterator[str] | None]]:
    """(field, its problems; None when it is not given) in Go's order; an empty problem counts as none."""
    cpu = (_outside("CPU", resources.cpu_milli, CPU_MILLI), attribute_keys_valid(resources.cpu_attributes))
    memory = (
        _outside("memory", resources.memory_bytes, MEMORY_BYTES),
        attribute_keys_valid(resources.memory_attributes),
    )
    yield "cpu", None if "cpu" in resources.absent else iter(cpu)
    yield "gpu", None if "gpu" in resources.absent else _gpu(resources)
    yield "memory", None if "memory" in resources.absent else iter(memory)
    yield "storage", None if resources.storage is None else _storage(resources.storage)


def _unit_problems(group: GroupSpec, unit: ResourceUnit) -> Iterator[GroupsInvalid]:
    resources = unit.resources
    if resources.id <= 0:
        yield GroupsInvalid("resources ID must be > 0", group=group.name, field="id")
    for field, problems in _measures(resources):
        for problem in (f"invalid unit {_SHOWN[field]}, cannot be nil",) if problems is None else problems:
            if problem:
                yield GroupsInvalid(problem, group=group.name, unit=resources.id, field=field)


def _total_problems(group: GroupSpec) -> Iterator[GroupsInvalid]:
    cpu = sum(unit.resources.cpu_milli * unit.count for unit in group.units)
    gpu = sum(unit.resources.gpu_units * unit.count for unit in group.units)
    memory = sum(unit.resources.memory_bytes * unit.count for unit in group.units)
    for field, value, low, high in (
        ("cpu", cpu, 1, MAX_GROUP_CPU_MILLI),
        ("gpu", gpu, 0, MAX_GROUP_GPU_UNITS),
        ("memory", memory, 1, MAX_GROUP_MEMORY_BYTES),
    ):
        if not low <= value <= high:
            text = f"group total {_SHOWN[field]} out of range: {value} is not within {low} and {high}"
            yield GroupsInvalid(text, group=group.name, field=field)


def _denom_problems(group: GroupSpec, denom: str) -> Iterator[GroupsInvalid]:
    """Problems of the denoms. Go compares a group's sum with the first group's, and panics when mixed denoms leave no
    sum.
    """
    for unit in group.units:
        if unit.price.denom != denom:
            text = f"inconsistent group denomination: {denom} != {unit.price.denom}: invalid price"
            yield GroupsInvalid(text, group=group.name, unit=unit.resources.id, field="price")


def _price_problems(group: GroupSpec) -> Iterator[GroupsInvalid]:
    for unit in group.units:
        amount = unit.price.amount
        if not 0 < amount <= MAX_PRICE:
            text = f"invalid price {amount}: it must be above 0 and at most {MAX_PRICE}"
            yield GroupsInvalid(text, group=group.name, unit=unit.resources.id, field="price")


def _ids_problem(group: GroupSpec) -> Iterator[GroupsInvalid]:
    ids = [unit.resources.id for unit in group.units]
    if len(set(ids)) != len(ids):
        yield GroupsInvalid(f"group {group.name}: resource ids {ids} are not unique", group=group.name, field="id")


def group_problems(groups: tuple[GroupSpec, ...]) -> Iterator[GroupsInvalid]:
    """Every problem, in the order in which the chain would find it."""
    if not groups or not groups[0].units:
        yield GroupsInvalid("Invalid groups: a deployment needs at least one group with resources")
        return
    denom = groups[0].units[0].price.denom
    names: set[str] = set()
    for group in groups:
        yield from _denom_problems(group, denom)
        if not group.name:
            yield GroupsInvalid("group has an empty name", field="name")
        for unit in group.units:
            yield from _unit_problems(group, unit)
        yield from _ids_problem(group)
        yield from _total_problems(group)
        yield from _price_problems(group)
        if group.name in names:
            yield GroupsInvalid(f"duplicate deployment group name {group.name}", group=group.name, field="name")
        names.add(group.name)


def validate_groups(groups: tuple[GroupSpec, ...]) -> None:
    """Raise the first problem."""
    problem = next(group_problems(groups), None)
    if problem is not None:
        raise problem
