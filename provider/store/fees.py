"""Fees by UTC day: of transactions in the journal, and the sums of those that are no longer in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import delete, insert, select

from provider.chain.tx.journal import Fate
from provider.store.database import Database
from provider.store.tables import fees, transactions

__all__ = ["PAID_FATES", "DayFees", "fees_between", "keep_fees"]

PAID_FATES = tuple(fate.value for fate in Fate if fate.paid)
_Place: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DayFees:
    """Fees of all accounts in whole micro-units of `denom`, with those of transactions whose end is not known."""

    day: date
    denom: str
    amount: int


async def keep_fees(connection: Any, gone: Iterable[Any]) -> None:
    """Add the fees of removed transactions to their days, in the database transaction that removes them. `gone`: rows
    with `sent_at`, `fee`, `denom` and `fate`.
    """
    sums = _sums((row.sent_at, row.denom, row.fee) for row in gone if row.fate in PAID_FATES)
    for (day, denom), amount in sums.items():
        this = (fees.c.day == day) & (fees.c.denom == denom)
        known = (await connection.execute(select(fees.c.amount).where(this))).scalar_one_or_none()
        await connection.execute(delete(fees).where(this))
        row = {"day": day, "denom": denom, "amount": str(int(known or 0) + amount)}
        await connection.execute(insert(fees).values(row))


async def fees_between(database: Database, first: date, last: date) -> Sequence[DayFees]:
    """The fees by day and denom, both days included. Raises `StoreError`."""
    begin = datetime.combine(first, datetime.min.time(), UTC).timestamp()
    end = datetime.combine(last + timedelta(days=1), datetime.min.time(), UTC).timestamp()
    old = select(fees).where(fees.c.day.between(first.isoformat(), last.isoformat()))
    new = select(transactions.c.sent_at, transactions.c.denom, transactions.c.fee).where(
        transactions.c.sent_at >= begin, transactions.c.sent_at < end, transactions.c.fate.in_(PAID_FATES)
    )
    async with database.reading() as connection:
        kept = Counter({(row.day, row.denom): int(row.amount) for row in (await connection.execute(old)).all()})
        kept.update(_sums((await connection.execute(new)).all()))
    return [DayFees(date.fromisoformat(day), denom, amount) for (day, denom), amount in sorted(kept.items())]


def _sums(paid: Iterable[Any]) -> Counter[_Place]:
    """The sums by day and denom. `paid`: (Unix seconds, denom, fee as text)."""
    sums: Counter[_Place] = Counter()
    for sent_at, denom, fee in paid:
        sums[datetime.fromtimestamp(sent_at, UTC).date().isoformat(), denom] += int(fee)
    return sums
