"""The strategy `table`: prices in USD from a YAML file, computed as the generic price script does (bidding.md §2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path

from lease.gpus import GpuRequest, parse_gpu_requests
from lease.groups import ResourceUnit
from lease.resources import EndpointKind, Price
from provider.errors import PricingError
from provider.market.pricing.akt_rate import Rates
from provider.market.pricing.quote import PriceLine, PriceRequest, Pricing, Quote
from provider.market.pricing.table_file import HIGHEST, PriceTable, load_price_table
from provider.watched_file import watched

__all__ = ["DOLLARS", "table_pricing", "watched_table"]

_BLOCKS_PER_MONTH = 429909
"""Blocks of 6.117 s in a month of 30.437 days, as in the script."""
DOLLARS = frozenset(
    {
        "uact",
        "ibc/12C6A0C374171B595A0A9E18B83FA09D295FB1F2D8C6DAA3AC28683471752D84",
        "ibc/170C677610AC31DF0904FFE09CD3B5C657492170E7E52372E48756B71E56F2F1",
    }
)
"""Denoms of which a million are one USD: ACT, and USDC of Axelar on the sandbox and on mainnet."""
_GIB = Decimal(2**30)
_MILLION = 10**6


def table_pricing(table: Callable[[], PriceTable], rates: Rates) -> Pricing:
    async def ask(request: PriceRequest) -> Quote:
        lines: tuple[PriceLine, ...] = ()
        current = table()
        unit = f"USD/{current.per}"
        try:
            lines = _table_lines(request.units, current, owner=request.order.owner)
            price = _convert(lines, request.most.denom, table=current, rates=rates)
        except PricingError as error:
            return Quote("table", problem=str(error), lines=lines, unit=unit)
        return Quote("table", price, lines=lines, unit=unit)

    return ask


def watched_table(path: Path) -> Callable[[], PriceTable]:
    """Returns a function that returns the current table of the file. A change that cannot be read is logged once, and
    the last good table stays. Raises `SettingsError` when the file cannot be read at the start.
    """
    return watched(path, lambda: load_price_table(path), what="price_table")


def _table_lines(units: tuple[ResourceUnit, ...], table: PriceTable, *, owner: str) -> tuple[PriceLine, ...]:
    """The parts of the price in USD, per month or block as the table says. Endpoints and IPs count per unit, not per
    replica, as in the script. Raises `PricingError` for a storage class or a card without a price.
    """
    cpu = sum(unit.resources.cpu_milli * unit.count for unit in units)
    memory = sum(unit.resources.memory_bytes * unit.count for unit in units)
    endpoints = sum(len(unit.resources.endpoints or ()) for unit in units)
    with localcontext(prec=120):
        lines = [
            PriceLine("CPU", Decimal(cpu) / 1000, table.cpu),
            PriceLine("GiB memory", _gib(memory), table.memory),
            *_storage_lines(units, table),
            PriceLine("endpoints", Decimal(endpoints), table.endpoint),
            PriceLine("leased IPs", Decimal(sum(map(_leased, units))), table.ip),
            *_gpu_lines(units, table),
        ]
        total = sum((line.amount for line in lines), Decimal(0))
        factor = table.owners.get(owner, Decimal(1))
        if factor != 1:
            lines.append(PriceLine("of the sum, for this tenant", total, factor - 1))
            total *= factor
        if total < table.minimum:
            lines.append(PriceLine("up to the minimum", Decimal(1), table.minimum - total))
    return tuple(lines)


def _convert(lines: Iterable[PriceLine], denom: str, *, table: PriceTable, rates: Rates) -> Price:
    """The sum as a price per block. Raises `PricingError` for a denom other than AKT and USD, when a rate is needed and
    none is fresh, and when the price is 0 after rounding.
    """
    if denom != "uakt" and denom not in DOLLARS:
        raise PricingError(f"the price table gives prices in uakt, uact and USDC, not in {denom[:100]}")
    with localcontext(prec=120):
        usd = sum((line.amount for line in lines), Decimal(0))
        if denom == "uakt":
            usd /= rates.usd_per_akt()
        if table.per == "month":
            usd /= _BLOCKS_PER_MONTH
        amount = (usd * _MILLION).quantize(Decimal(1).scaleb(-table.precision), rounding=ROUND_HALF_EVEN)
    if amount <= 0:
        raise PricingError(f"the price is {amount:f}: a bid must be above 0")
    return Price(denom, amount)


def _storage_lines(units: tuple[ResourceUnit, ...], table: PriceTable) -> list[PriceLine]:
    """The class is the class attribute, also of volumes that are not persistent, else ephemeral. So RAM has class
    ram.
    """
    sizes: dict[str, int] = {}
    for unit in units:
        for volume in unit.resources.storage or ():
            name = volume.storage_class or "ephemeral"
            sizes[name] = sizes.get(name, 0) + volume.size_bytes * unit.count
    for name in sizes:
        if name not in table.storage:
            raise PricingError(f"storage class {name} has no price in the price table (0 makes it free)")
    return [PriceLine(f"GiB storage {name}", _gib(size), table.storage[name]) for name, size in sizes.items()]


def _gpu_lines(units: tuple[ResourceUnit, ...], table: PriceTable) -> list[PriceLine]:
    lines = []
    for unit in units:
        if unit.resources.gpu_units:
            key = _card(unit)
            lines.append(PriceLine(f"GPU {key}", Decimal(unit.resources.gpu_units * unit.count), _of_card(key, table)))
    return lines


def _card(unit: ResourceUnit) -> str:
    """`model[.ram][.interface]` of the last NVIDIA card in the unit, else of the last AMD card."""
    requests = parse_gpu_requests(unit.resources.gpu_attributes) or ()
    found: dict[str, GpuRequest] = {request.vendor: request for request in requests}
    card = found.get("nvidia") or found.get("amd")
    if card is None:
        raise PricingError(f"unit {unit.resources.id}: the GPU attributes name no model, so there is no price")
    return ".".join(part for part in (card.model, card.memory_size, card.interface) if part)


def _of_card(key: str, table: PriceTable) -> Decimal:
    """The price of the whole name, else without its last part, else of the model, else of `*` (bidding.md §2.4)."""
    for name in (key, key.rpartition(".")[0] or key, key.partition(".")[0], "*"):
        if name in table.gpu:
            price = table.gpu[name]
            return max(Decimal(100), *table.gpu.values()) if price == HIGHEST else price
    raise PricingError(f"GPU {key} has no price in the price table")


def _gib(size: int) -> Decimal:
    """Exact. The script cuts after 12 decimals, which changes no bid of a realistic price."""
    return Decimal(size) / _GIB


def _leased(unit: ResourceUnit) -> int:
    endpoints = unit.resources.endpoints or ()
    return len({item.sequence_number for item in endpoints if item.kind is EndpointKind.LEASED_IP})
