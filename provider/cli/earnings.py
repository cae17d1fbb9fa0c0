"""`lessor earnings`: what leases earned, by day or by lease. Reads the store, changes nothing; works beside a running
provider. Exit code 1: the store cannot be read; 2: wrong settings or options.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lease.printable import printable
from provider.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from provider.store.money import Earned

__all__ = ["register"]

_MICRO = Decimal(1_000_000)
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
        bool, typer.Option("--json", help="One JSON document, in micro-units, a day and lease.")
    ] = False,
) -> None:
    """What your leases earned, when it accrued (not when it was withdrawn).

    A running provider looks every ten minutes; a day it was down has its share of what accrued meanwhile.
    """
    today = datetime.now(UTC).date()
    try:
        found = asyncio.run(_read(today - timedelta(days=days - 1), today))
    except (SettingsError, StoreError) as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2 if isinstance(error, SettingsError) else 1) from None
    if as_json:
        typer.echo(json.dumps([_row(item) for item in found], indent=2))
    else:
        typer.echo("\n".join(printable(line) for line in earning_lines(found, by)))


def earning_lines(found: Sequence[Earned], by: By) -> list[str]:
    """A table of whole coins, rounded down, with the sum of each denom at the end."""
    if not found:
        return ["nothing was earned in these days"]
    key: Callable[[Earned], str] = (lambda item: item.day.isoformat()) if by is By.DAY else lambda item: str(item.lease)
    sums: dict[tuple[str, str], Decimal] = {}
    for item in found:
        for name in (key(item), "in all"):
            sums[name, item.denom] = sums.get((name, item.denom), Decimal(0)) + item.amount
    total = {place: amount for place, amount in sums.items() if place[0] == "in all"}
    rows = [(name, *_coins(amount, denom)) for (name, denom), amount in sorted(sums.items()) if name != "in all"]
    rows += [(name, *_coins(amount, denom)) for (name, denom), amount in sorted(total.items())]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"{name:<{first}}  {amount:>{second}} {denom}" for name, amount, denom in rows]


async def _read(first: date, last: date) -> Sequence[Earned]:
    from provider.settings import load_settings  # noqa: PLC0415  other commands start without the store
    from provider.store import read_database  # noqa: PLC0415
    from provider.store.money import earned_between  # noqa: PLC0415

    database = await read_database(load_settings().database_url)
    try:
        return await earned_between(database, first, last)
    finally:
        await database.close()


def _coins(amount: Decimal, denom: str) -> tuple[str, str]:
    """`uact` and `uakt` are millionths of what people call ACT and AKT; another denom stays as it is."""
    if denom in ("uact", "uakt"):
        return f"{(amount / _MICRO).quantize(Decimal('0.000001'), ROUND_DOWN):f}", denom[1:].upper()
    return f"{amount.quantize(Decimal(1), ROUND_DOWN):f}", denom


def _row(item: Earned) -> dict[str, Any]:
    return {"day": item.day.isoformat(), "lease": str(item.lease), "denom": item.denom, "amount": str(item.amount)}
