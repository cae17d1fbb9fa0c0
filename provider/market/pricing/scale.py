"""The strategy `scale`: amounts per block for CPU, memory, storage, endpoints and leased IPs (bidding.md §2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext

from lease.groups import GroupSpec
from lease.resources import Price, Volume
from provider.errors import PricingError, SettingsError
from provider.inventory.needs import leased_ips
from provider.market.pricing.quote import PriceLine
from provider.settings import Settings

__all__ = ["ScalePrices", "price_lines", "scale_price", "scale_prices"]

_MIB = Decimal(2**20)
_DIVISION = Decimal("1e-16")
"""Bytes become MiB with 16 decimals, half away from zero, as in the Go provider; a multiplication is exact."""
_PLACES = Decimal("1e-18")
_LARGEST = Decimal(10) ** 18


@dataclass(frozen=True, slots=True)
class ScalePrices:
    """Per block: milli-CPU, MiB of memory, MiB of a storage class, endpoint, leased IP. A GPU has no price here."""

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    storage: Mapping[str, Decimal] = field(default_factory=dict)
    endpoint: Decimal = Decimal(0)
    ip: Decimal = Decimal(0)


def scale_prices(settings: Settings) -> ScalePrices:
    """The scales of the settings. Raises `SettingsError` when all of them are 0 (bidding.md §2.1)."""
    prices = ScalePrices(
        cpu=settings.cpu_scale,
        memory=settings.memory_scale,
        storage=settings.storage_scale,
        endpoint=settings.endpoint_scale,
        ip=settings.ip_scale,
    )
    free_storage = not prices.storage or any(scale == 0 for scale in prices.storage.values())
    if not (prices.cpu or prices.memory or prices.endpoint or prices.ip) and free_storage:
        raise SettingsError(
            "no price is set: give at least one of AP_BID_PRICE_CPU_SCALE, AP_BID_PRICE_MEMORY_SCALE, "
            "AP_BID_PRICE_STORAGE_SCALE, AP_BID_PRICE_ENDPOINT_SCALE, AP_BID_PRICE_IP_SCALE (per block, above 0)"
        )
    return prices


def price_lines(spec: GroupSpec, prices: ScalePrices) -> tuple[PriceLine, ...]:
    """The parts of the price, from the amounts of the order, not the overcommitted ones. Raises `PricingError` for a
    storage class without a price.
    """
    cpu = sum(unit.resources.cpu_milli * unit.count for unit in spec.units)
    memory = sum(unit.resources.memory_bytes * unit.count for unit in spec.units)
    endpoints = sum(len(unit.resources.endpoints or ()) for unit in spec.units)
    lines = [
        PriceLine("milli-CPU", Decimal(cpu), prices.cpu),
        PriceLine("MiB memory", _mebibytes(memory), prices.memory),
    ]
    for name, size in _storage(spec).items():
        if name not in prices.storage:
            raise PricingError(f"storage class {name} has no price; add it to AP_BID_PRICE_STORAGE_SCALE")
        lines.append(PriceLine(f"MiB storage {name}", _mebibytes(size), prices.storage[name]))
    lines.append(PriceLine("endpoints", Decimal(endpoints), prices.endpoint))
    lines.append(PriceLine("leased IPs", Decimal(leased_ips(spec)), prices.ip))
    return tuple(lines)


def scale_price(spec: GroupSpec, prices: ScalePrices) -> Price:
    """The bid, in the denom of the order. Raises `PricingError` when it is zero or too large.

    Rounded to the 18 decimals the chain has, where the Go provider would not bid (bidding.md §9).
    """
    with localcontext(prec=120):
        total = sum((line.amount for line in price_lines(spec, prices)), Decimal(0))
        amount = total.quantize(_PLACES, rounding=ROUND_HALF_UP)
    if amount <= 0:
        raise PricingError(f"the price is {amount.normalize():f}: a bid must be above 0")
    if amount > _LARGEST:
        raise PricingError(f"the price {amount:.0f} is above 10^18; check the AP_BID_PRICE_… scales")
    return Price(spec.units[0].price.denom, amount.normalize())


def _mebibytes(size: int) -> Decimal:
    with localcontext(prec=120):
        return (Decimal(size) / _MIB).quantize(_DIVISION, rounding=ROUND_HALF_UP)


def _storage(spec: GroupSpec) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for unit in spec.units:
        for volume in unit.resources.storage or ():
            name = _priced_class(volume)
            sizes[name] = sizes.get(name, 0) + volume.size_bytes * unit.count
    return sizes


def _priced_class(volume: Volume) -> str:
    """RAM volumes have the price of ephemeral storage, as in the Go provider, since it affects prices (bidding.md
    §9).
    """
    return volume.storage_class if volume.persistent and volume.storage_class else "ephemeral"
