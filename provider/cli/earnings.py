"""`lessor earnings`: what leases earned, by day or by lease, and what fees cost. Reads the store, changes nothing;
works beside a running provider. Exit code 1: the store cannot be read; 2: wrong settings or options.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from lease.printable import printable, printable_line
from provider.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from provider.store.fees import DayFees
    from provider.store.money import Earned

__all__ = ["register"]

_MICRO = Decimal(1_000_000)
_COINS = ("uact", "uakt")
_ALL = "in all"
_Place: TypeAlias = tuple[str, str]
"""A line's name and its denom."""
_MOST_DAYS = 3660


class By(StrEnum):
    DAY = "day"
    LEASE = "lease"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(earnings)


def earnings(
    *,
    days: Annotated[int, typer.Option(min=1, max=_MOST_DAYS, help="So many UTC days, today the last.")] = 30,
    by: Annotated[By, typer.Option(help="One line a day, or one a lease.")] = By.DAY,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document, in micro-units: earned a day and lease, fees a day.")
    ] = False,
) -> None:
    """What your leases earned, when it accrued (not when it was withdrawn), and what transactions cost, by UTC days.

    A running provider looks every ten minutes; a day it was down has its share of what accrued meanwhile. Fees are paid
    in another coin than most leases, so what is left is told of each coin. Deposits of bids come back and are no fees.
    """
    today = datetime.now(UTC).date()
    try:
        found, fees = asyncio.run(_read(today - timedelta(days=days - 1), today))
    except (SettingsError, StoreError) as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2 if isinstance(error, SettingsError) else 1) from None
    if as_json:
        document = {"earned": [_row(item) for item in found], "fees": [_fee_row(item) for item in fees]}
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo("\n".join(printable_line(line) for line in earning_lines(found, fees, by)))


def earning_lines(found: Sequence[Earned], fees: Sequence[DayFees], by: By) -> list[str]:
    """A table of whole coins with the sum of each denom at the end; what was earned is rounded down, so what is left of
    it is not told too high. A transaction serves many leases: no lease has fees of its own.
    """
    if not found and not fees:
        return ["nothing was earned in these days, and no fee paid"]
    key: Callable[[Earned], str] = (lambda item: item.day.isoformat()) if by is By.DAY else lambda item: str(item.lease)
    earned, paid = defaultdict[_Place, Decimal](Decimal), defaultdict[_Place, Decimal](Decimal)
    for item in found:
        for name in (key(item), _ALL):
            earned[name, item.denom] += item.amount
    for fee in fees:
        for name in (fee.day.isoformat(), _ALL) if by is By.DAY else (_ALL,):
            paid[name, fee.denom] += fee.amount
    places = sorted(earned.keys() | paid.keys(), key=lambda place: (place[0] == _ALL, place))
    rows: list[tuple[str, ...]] = [("", "earned", "fees", "left", "")]
    rows += [_cells(place, earned[place], paid[place], whole=by is By.DAY or place[0] == _ALL) for place in places]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [_line(row, widths) for row in rows]


def _cells(place: _Place, earned: Decimal, paid: Decimal, *, whole: bool) -> tuple[str, ...]:
    name, denom = place
    unit = denom[1:].upper() if denom in _COINS else denom
    amounts = (earned, paid, earned - paid) if whole else (earned,)
    return (name, *[_coins(amount, denom) for amount in amounts], *["" for _ in range(3 - len(amounts))], unit)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *amounts, unit = row
    cells = (f"{amount:>{width}}" for amount, width in zip(amounts, widths[1:], strict=True))
    return f"{name:<{widths[0]}}  {'  '.join(cells)} {unit}".rstrip()


async def _read(first: date, last: date) -> tuple[Sequence[Earned], Sequence[DayFees]]:
    from provider.settings import load_settings  # noqa: PLC0415  other commands start without the store
    from provider.store import read_database  # noqa: PLC0415
    from provider.store.fees import fees_between  # noqa: PLC0415
    from provider.store.money import earned_between  # noqa: PLC0415

    database = await read_database(load_settings().database_url)
    try:
        return await earned_between(database, first, last), await fees_between(database, first, last)
    finally:
        await database.close()


def _coins(amount: Decimal, denom: str) -> str:
    """`uact` and `uakt` are millionths of what people call ACT and AKT; another denom stays as it is."""
    if denom in _COINS:
        return f"{(amount / _MICRO).quantize(Decimal('0.000001'), ROUND_FLOOR):f}"
    return f"{amount.quantize(Decimal(1), ROUND_FLOOR):f}"


def _row(item: Earned) -> dict[str, Any]:
    return {"day": item.day.isoformat(), "lease": str(item.lease), "denom": item.denom, "amount": str(item.amount)}


def _fee_row(item: DayFees) -> dict[str, Any]:
    return {"day": item.day.isoformat(), "denom": item.denom, "amount": str(item.amount)}
