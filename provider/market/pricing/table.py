"""A bid by the price table: the numbers of the generic price script, without the script (bidding.md §2.4)."""

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
"""Blocks of 6.117 s in a month of 30.437 days, as the script counts."""
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
    async def ask(asked: PriceRequest) -> Quote:
        lines: tuple[PriceLine, ...] = ()
        current = table()
        unit = f"USD/{current.per}"
        try:
            lines = _table_lines(asked.units, current, owner=asked.order.owner)
            price = _convert(lines, asked.most.denom, table=current, rates=rates)
        except PricingError as error:
            return Quote("table", problem=str(error), lines=lines, unit=unit)
        return Quote("table", price, lines=lines, unit=unit)

    return ask


def watched_table(path: Path) -> Callable[[], PriceTable]:
    """The table of the file as it is now. A change that cannot be read is logged once and the last good table stays.

    Raises `SettingsError` when it cannot be read to begin with.
    """
    return watched(path, lambda: load_price_table(path), what="price_table")


def _table_lines(units: tuple[ResourceUnit, ...], table: PriceTable, *, owner: str) -> tuple[PriceLine, ...]:
    """The parts of the price in USD per the table's period. Endpoints and IPs count once a unit, not a replica, as in
    the script. Raises `PricingError` for a storage class or a card that has no price.
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
    """The sum as a price per block. Raises `PricingError` for another denom than AKT and USD, without a fresh rate
    where one is needed, and when nothing is left after rounding.
    """
    if denom != "uakt" and denom not in DOLLARS:
        raise PricingError(f"the price table knows uakt, uact and USDC, not {denom[:100]}")
    with localcontext(prec=120):
        usd = sum((line.amount for line in lines), Decimal(0))
        if denom == "uakt":
            usd /= rates.usd_per_akt()
        if table.per == "month":
            usd /= _BLOCKS_PER_MONTH
        amount = (usd * _MILLION).quantize(Decimal(1).scaleb(-table.precision), rounding=ROUND_HALF_EVEN)
    if amount <= 0:
        raise PricingError(f"the price is {amount:f}; a bid of nothing is not made")
    return Price(denom, amount)


def _storage_lines(units: tuple[ResourceUnit, ...], table: PriceTable) -> list[PriceLine]:
    """By the class attribute, persistent or not, else ephemeral: so RAM volumes are of class ram."""
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
    """`model[.ram][.interface]` of the last NVIDIA card that is stated, else of the last one of AMD."""
    requests = parse_gpu_requests(unit.resources.gpu_attributes) or ()
    found: dict[str, GpuRequest] = {request.vendor: request for request in requests}
    card = found.get("nvidia") or found.get("amd")
    if card is None:
        raise PricingError(f"unit {unit.resources.id}: GPUs without a card that could be priced")
    return ".".join(part for part in (card.model, card.memory_size, card.interface) if part)


def _of_card(key: str, table: PriceTable) -> Decimal:
    """The whole name, then without its last part, then the model, then `*` (bidding.md §2.4)."""
    for name in (key, key.rpartition(".")[0] or key, key.partition(".")[0], "*"):
        if name in table.gpu:
            price = table.gpu[name]
            return max(Decimal(100), *table.gpu.values()) if price == HIGHEST else price
    raise PricingError(f"GPU {key} has no price in the price table")


def _gib(size: int) -> Decimal:
    """Exact; the script cuts after 12 decimals, which shows in no bid of a realistic price."""
    return Decimal(size) / _GIB


def _leased(unit: ResourceUnit) -> int:
    endpoints = unit.resources.endpoints or ()
    return len({item.sequence_number for item in endpoints if item.kind is EndpointKind.LEASED_IP})
