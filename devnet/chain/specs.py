"""Limits of a group spec (chain.md §4.3), checked before a block; most have no registered code (correction 1)."""

from __future__ import annotations

from collections.abc import Iterable

from devnet.chain.errors import undefined
from devnet.chain.wire import PRECISION, Message, dec_text

__all__ = ["check_group_spec", "group_price"]

_MAX_COUNT = 50
_CPU_MILLI = (10, 384_000)
_GPU_UNITS = (0, 24)
_MEMORY_BYTES = (1 << 20, 2 << 40)
_STORAGE_BYTES = (5 << 20, 32 << 40)
_MAX_UNIT_PRICE = 10_000_000


def group_price(spec: Message) -> tuple[str, int]:
    """(denomination, price per block as wire integer) of the whole group: the sum of unit price times count."""
    return spec.resources[0].price.denom, sum(int(unit.price.amount or "0") * unit.count for unit in spec.resources)


def check_group_spec(spec: Message) -> None:
    """Check the limits. Raises `undefined` 1 with the limit that is exceeded."""
    if not spec.name:
        raise undefined("empty group spec name denomination")
    _check_units(spec.resources)
    _check_prices(spec)
    _check_totals(spec.resources)


def _check_units(units: Iterable[Message]) -> None:
    seen: set[int] = set()
    for unit in units:
        if unit.resource.id == 0:
            raise undefined("error: invalid resources ID (> 0 fails)")
        if unit.resource.id in seen:
            raise undefined(f"duplicate resources ID ({unit.resource.id}) within group")
        seen.add(unit.resource.id)
        _check_resources(unit.resource)


def _check_resources(resource: Message) -> None:
    for name, label in (("cpu", "CPU"), ("gpu", "GPU"), ("memory", "memory")):
        if not resource.HasField(name):
            raise undefined(f"error: invalid unit {label}, cannot be nil")
    if not resource.storage:
        raise undefined("error: invalid unit storage, cannot be nil")
    _check_within("CPU", _number(resource.cpu.units), _CPU_MILLI)
    _check_gpu(resource.gpu)
    _check_within("memory", _number(resource.memory.quantity), _MEMORY_BYTES)
    for volume in resource.storage:
        value = _number(volume.quantity)
        if not _STORAGE_BYTES[0] <= value <= _STORAGE_BYTES[1]:
            low, high = _STORAGE_BYTES
            raise undefined(f"error: invalid unit storage ({high} > {value} > {low} fails)")


def _check_gpu(gpu: Message) -> None:
    units = _number(gpu.units)
    _check_within("GPU", units, _GPU_UNITS)
    if units == 0 and gpu.attributes:
        raise undefined("error: invalid GPU state. attributes cannot be present if units == 0")


def _check_within(label: str, value: int, limits: tuple[int, int]) -> None:
    low, high = limits
    if not low <= value <= high:
        raise undefined(f"error: invalid unit {label} ({high} > {value} > {high} fails)")


def _number(value: Message) -> int:
    text = value.val.decode("ascii", "replace") or "0"
    if not text.removeprefix("-").isdigit() or len(text) > 20:
        raise undefined(f"error: invalid resource value {text[:40]!r}")
    return int(text)


def _check_prices(spec: Message) -> None:
    denom = spec.resources[0].price.denom if spec.resources else ""
    for unit in spec.resources:
        price = unit.price
        if price.denom != denom:
            raise undefined(f"multi-denonimation group: ({price.denom} == {denom} fails)")
        amount = price.amount or "0"
        if not amount.removeprefix("-").isdigit():
            raise undefined(f"group {spec.name}: error: invalid unit price {amount[:60]!r}")
        if not 0 <= int(amount) <= _MAX_UNIT_PRICE * PRECISION:
            text = f"({_MAX_UNIT_PRICE} > {dec_text(amount)}{price.denom} fails)"
            raise undefined(f"group {spec.name}: error: invalid unit price {text}")


def _check_totals(units: Message) -> None:
    rows = [(unit.count, unit.resource) for unit in units]
    _check_total("CPU", sum(count * _number(one.cpu.units) for count, one in rows), _CPU_MILLI[1], above=0)
    _check_total("GPU", sum(count * _number(one.gpu.units) for count, one in rows), _GPU_UNITS[1], above=-1)
    _check_total("memory", sum(count * _number(one.memory.quantity) for count, one in rows), _MEMORY_BYTES[1], above=0)
    storage = sum(count * _number(volume.quantity) for count, one in rows for volume in one.storage)
    _check_total("storage", storage, _STORAGE_BYTES[1], above=0)


def _check_total(label: str, value: int, unit_limit: int, *, above: int) -> None:
    limit = unit_limit * _MAX_COUNT
    if not above < value <= limit:
        raise undefined(f"invalid total {label} ({limit} > {value} > 0 fails)")
