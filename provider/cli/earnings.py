"""`lessor earnings`: what leases earned, by day or by lease, and what transactions cost.

It reads the store and changes nothing, beside a running provider or without one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from provider.cli.home import settings_of_store
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines
from provider.errors import SettingsError, StoreError
from provider.store import read_database
from provider.store.fees import DayFees, fees_between
from provider.store.money import Earned, LeaseMoney, earned_between, known_money

__all__ = ["By", "age_lines", "earning_lines", "earnings", "money_lines", "print_earnings"]

_MICRO = Decimal(1_000_000)
_COINS = ("uact", "uakt")
_ALL = "in all"
_Place: TypeAlias = tuple[str, str]
"""A row's name and its denom."""
_MOST_DAYS = 3660


class By(StrEnum):
    DAY = "day"
    LEASE = "lease"


def earnings(
    *,
    days: Annotated[int, typer.Option(min=1, max=_MOST_DAYS, help="The number of UTC days, today included.")] = 30,
    by: Annotated[By, typer.Option(help="Print a line for each day, or one for each lease.")] = By.DAY,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what leases earned and what transactions cost.

    Earnings count for the UTC day on which they accrued, whenever they were withdrawn. A running provider reads them
    every ten minutes; earnings that accrued while it was down are spread evenly over that time. Fees are often paid in
    another coin than leases, so each coin has its own sums. The deposits of bids come back and are no fees. With
    --by lease a second table shows each living lease's rate, and what of all its earnings is withdrawn and owed.

    Documents have micro-units: earnings by day and lease, fees by day.

    Example: `lessor earnings --days 7`
    """
    print_earnings(datetime.now(UTC), days=days, by=by, output=output)


def print_earnings(now: datetime, *, days: int = 30, by: By = By.DAY, output: Output = Output.TABLE) -> None:
    """Print the earnings of the `days` until `now`. Raises `typer.Exit` when the store cannot be read."""
    today = now.date()
    try:
        found, fees, living = asyncio.run(_read(today - timedelta(days=days - 1), today))
    except (SettingsError, StoreError) as error:
        raise failure(error) from None
    read_at = min((item.seen_at for item in living), default=None)
    document = {
        "earned": [_row(item) for item in found],
        "fees": [_fee_row(item) for item in fees],
        "leases": [_money_row(item) for item in living],
        "read_at": None if read_at is None else _moment(read_at),
    }
    owed = money_lines(living) if by is By.LEASE else []
    lines = [*earning_lines(found, fees, by), *owed, *age_lines(read_at, now=now.timestamp())]
    print_result(document, lines, output)


def earning_lines(found: Sequence[Earned], fees: Sequence[DayFees], by: By) -> list[str]:
    """A table in whole coins, with the sums of each denom at the end. Amounts are rounded down, so that no sum is too
    high. No lease has fees of its own, since a transaction serves many leases.
    """
    if not found and not fees:
        return ["no lease earned anything in these days, and no fee was paid"]
    key: Callable[[Earned], str] = (lambda item: item.day.isoformat()) if by is By.DAY else lambda item: str(item.lease)
    earned, paid = defaultdict[_Place, Decimal](Decimal), defaultdict[_Place, Decimal](Decimal)
    for item in found:
        for name in (key(item), _ALL):
            earned[name, item.denom] += item.amount
    for fee in fees:
        for name in (fee.day.isoformat(), _ALL) if by is By.DAY else (_ALL,):
            paid[name, fee.denom] += fee.amount
    places = sorted(earned.keys() | paid.keys(), key=lambda place: (place[0] == _ALL, place))
    rows = [_cells(place, earned[place], paid[place], whole=by is By.DAY or place[0] == _ALL) for place in places]
    return table_lines(rows, header=("", "earned", "fees", "left", ""), right={1, 2, 3})


def money_lines(living: Sequence[LeaseMoney]) -> list[str]:
    """A table with the rate of each living lease and the parts of all that it has earned; empty for no lease."""
    rows = [_money_cells(item) for item in living]
    return table_lines(rows, header=("", "a block", "withdrawn", "owed", ""), right={1, 2, 3}) if rows else []


def age_lines(read_at: float | None, *, now: float) -> list[str]:
    """How old the earnings are; empty when no lease earns now. Times are Unix seconds."""
    if read_at is None:
        return []
    minutes = max(0, round((now - read_at) / 60))
    return [f"earnings as of {_moment(read_at)}, {minutes} minute{'' if minutes == 1 else 's'} ago"]


def _money_cells(item: LeaseMoney) -> tuple[str, ...]:
    unit = item.denom[1:].upper() if item.denom in _COINS else item.denom
    if item.rate is None or item.unpaid is None:
        return (str(item.lease), *["not read yet"] * 3, unit)
    rate = item.rate / _MICRO if item.denom in _COINS else item.rate
    amounts = (_coins(amount, item.denom) for amount in (item.earned - item.unpaid, item.unpaid))
    return (str(item.lease), f"{rate.normalize():f}", *amounts, unit)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cells(place: _Place, earned: Decimal, paid: Decimal, *, whole: bool) -> tuple[str, ...]:
    name, denom = place
    unit = denom[1:].upper() if denom in _COINS else denom
    amounts = (earned, paid, earned - paid) if whole else (earned,)
    return (name, *[_coins(amount, denom) for amount in amounts], *["" for _ in range(3 - len(amounts))], unit)


async def _read(first: date, last: date) -> tuple[Sequence[Earned], Sequence[DayFees], Sequence[LeaseMoney]]:
    """The earnings and fees of these days, and the money of the leases that have not ended, in their order."""
    database = await read_database(settings_of_store().database_url)
    try:
        known = (await known_money(database)).items()
        living = [item for _, item in sorted(known, key=lambda pair: pair[0]) if not item.ended]
        found = await earned_between(database, first, last)
        return found, await fees_between(database, first, last), living
    finally:
        await database.close()


def _coins(amount: Decimal, denom: str) -> str:
    """The amount in ACT or AKT for `uact` or `uakt`, which are millionths of it; in the denom itself for others."""
    if denom in _COINS:
        return f"{(amount / _MICRO).quantize(Decimal('0.000001'), ROUND_FLOOR):f}"
    return f"{amount.quantize(Decimal(1), ROUND_FLOOR):f}"


def _row(item: Earned) -> dict[str, Any]:
    return {"day": item.day.isoformat(), "lease": str(item.lease), "denom": item.denom, "amount": str(item.amount)}


def _money_row(item: LeaseMoney) -> dict[str, Any]:
    """Amounts in micro-units; null when the lease was not read yet by this version."""
    withdrawn = None if item.unpaid is None else item.earned - item.unpaid
    amounts = {"rate": item.rate, "earned": item.earned, "withdrawn": withdrawn, "owed": item.unpaid}
    texts = {name: None if amount is None else str(amount) for name, amount in amounts.items()}
    return {"lease": str(item.lease), "denom": item.denom} | texts


def _fee_row(item: DayFees) -> dict[str, Any]:
    return {"day": item.day.isoformat(), "denom": item.denom, "amount": str(item.amount)}
