"""Earnings of each lease by UTC day, and its last known total. Amounts are decimals as text, since no number column
holds 18 places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import structlog
from sqlalchemy import bindparam, delete, insert, select, update

from lease.ids import LeaseId
from provider.store.database import Database
from provider.store.tables import earnings, lease_money

__all__ = ["Earned", "LeaseMoney", "earned_between", "forget_ended", "known_money", "save_money"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseMoney:
    """The last known earnings of a lease. `earned`: the total at `seen_at`, in micro-units of `denom`. `since`: its
    last withdrawal, else when it was first read. `ended`: `earned` is final. `rate`: by block; `unpaid`: the part of
    `earned` that is not withdrawn; None for both when they were not read yet. Times are Unix seconds.
    """

    lease: LeaseId
    denom: str
    earned: Decimal
    seen_at: float
    since: float
    ended: bool = False
    rate: Decimal | None = None
    unpaid: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Earned:
    day: date
    lease: LeaseId
    denom: str
    amount: Decimal


async def known_money(database: Database) -> Mapping[LeaseId, LeaseMoney]:
    """The last known earnings of all leases, ended ones too. A row that cannot be read is logged and left out: the
    chain still knows that lease.
    """
    async with database.reading() as connection:
        rows = (await connection.execute(select(lease_money))).mappings().all()
    known: dict[LeaseId, LeaseMoney] = {}
    for row in rows:
        try:
            known[_lease(row["lease"])] = _money(row)
        except (ValueError, ArithmeticError) as error:
            _log.warning("funds.row_unreadable", lease=row["lease"], problem=repr(error))
    return known


async def save_money(database: Database, seen: Sequence[LeaseMoney], shares: Iterable[Earned]) -> None:
    """Replace the earnings of these leases and add `shares` to their days, all of it or nothing. Callers pass some
    hundred leases at a time, since other writers wait. Raises `StoreError`.
    """
    if not seen:
        return
    names = [{"key": str(item.lease)} for item in seen]
    async with database.writing() as connection:
        await connection.execute(delete(lease_money).where(lease_money.c.lease == bindparam("key")), names)
        await connection.execute(insert(lease_money), [_row(item) for item in seen])
        await _add(connection, [item for item in shares if item.amount])


async def forget_ended(database: Database, *, before: float) -> None:
    """Forget the totals of leases that ended before `before` (Unix seconds); their earnings by day stay. Raises
    `StoreError`.
    """
    async with database.writing() as connection:
        await connection.execute(delete(lease_money).where(lease_money.c.ended, lease_money.c.seen_at < before))


async def earned_between(database: Database, first: date, last: date) -> Sequence[Earned]:
    """The earnings by day and lease, both days included."""
    query = select(earnings).where(earnings.c.day.between(first.isoformat(), last.isoformat()))
    async with database.reading() as connection:
        rows = (await connection.execute(query.order_by(earnings.c.day, earnings.c.lease))).mappings().all()
    return [
        Earned(date.fromisoformat(row["day"]), _lease(row["lease"]), row["denom"], Decimal(row["amount"]))
        for row in rows
    ]


async def _add(connection: Any, shares: Sequence[Earned]) -> None:
    """Add shares to their days. A database cannot add texts, so the days are read and written back; the writer's lock
    makes that safe.
    """
    known = await _days(connection, shares)
    old, new = [], []
    for item in shares:
        key = (item.day.isoformat(), str(item.lease), item.denom)
        values = dict(zip(("at_day", "at_lease", "at_denom"), key, strict=True))
        if key in known:
            old.append({**values, "total": str(known[key] + item.amount)})
        else:
            new.append({"day": key[0], "lease": key[1], "denom": key[2], "amount": str(item.amount)})
    if new:
        await connection.execute(insert(earnings), new)
    if old:
        this = (
            (earnings.c.day == bindparam("at_day"))
            & (earnings.c.lease == bindparam("at_lease"))
            & (earnings.c.denom == bindparam("at_denom"))
        )
        await connection.execute(update(earnings).where(this).values(amount=bindparam("total")), old)


async def _days(connection: Any, shares: Sequence[Earned]) -> Mapping[tuple[str, str, str], Decimal]:
    """The stored earnings of these leases on these days."""
    days, leases = {item.day.isoformat() for item in shares}, {str(item.lease) for item in shares}
    query = select(earnings).where(earnings.c.day.in_(days), earnings.c.lease.in_(leases))
    rows = (await connection.execute(query)).mappings().all()
    return {(row["day"], row["lease"], row["denom"]): Decimal(row["amount"]) for row in rows}


def _row(item: LeaseMoney) -> dict[str, Any]:
    return {
        "lease": str(item.lease),
        "denom": item.denom,
        "earned": str(item.earned),
        "seen_at": item.seen_at,
        "since": item.since,
        "ended": item.ended,
        "rate": _text(item.rate),
        "unpaid": _text(item.unpaid),
    }


def _money(row: Any) -> LeaseMoney:
    return LeaseMoney(
        _lease(row["lease"]),
        row["denom"],
        Decimal(row["earned"]),
        row["seen_at"],
        row["since"],
        row["ended"],
        rate=_decimal(row["rate"]),
        unpaid=_decimal(row["unpaid"]),
    )


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else str(amount)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _lease(text: str) -> LeaseId:
    owner, dseq, gseq, oseq, provider = text.split("/")
    return LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)
