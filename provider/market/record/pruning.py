"""Removes old decisions, and the inputs and the capacity that no decision refers to any more.

Rows are searched beside the writers and deleted a few at a time: a decision about a new order waits for one such
transaction at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import delete, func, select, union

from provider.store.database import Database
from provider.store.tables import capacity_log, decision_inputs, decisions

__all__ = ["prune_decisions"]

_AT_ONCE = 250
"""Rows of one transaction."""
_INPUTS = ("spec_input", "record_input", "rules_input", "audits_input", "quote_input")


async def prune_decisions(
    database: Database, *, turn: asyncio.Lock, forget: Callable[[], None], now: float, keep: int, age_s: float
) -> int:
    """Remove decisions older than `age_s` and all but the newest `keep`. `turn` is held by who writes decisions;
    `forget` makes that writer look up again what it remembers of stored rows. Returns the number of decisions removed.
    Raises `StoreError`; the next call goes on.
    """
    gone = await _remove_decisions(database, now=now, keep=keep, age_s=age_s)
    if gone:
        async with turn:
            forget()
        await _remove_inputs(database, turn)
        await _remove_capacity(database)
    return gone


async def _remove_decisions(database: Database, *, now: float, keep: int, age_s: float) -> int:
    newest = await _first(database, select(func.max(decisions.c.id))) or 0
    old = (decisions.c.id <= newest - keep) | (decisions.c.decided_at < now - age_s)
    query, gone = select(decisions.c.id).where(old).order_by(decisions.c.id).limit(_AT_ONCE), 0
    while found := await _all(database, query):
        async with database.writing() as connection:
            await connection.execute(delete(decisions).where(decisions.c.id.in_(found)))
        gone += len(found)
    return gone


async def _remove_inputs(database: Database, turn: asyncio.Lock) -> None:
    """A decision that is written meanwhile may refer to an input that was found unused, so each is judged again."""
    newest = await _first(database, select(func.max(decisions.c.id))) or 0
    unused = await _all(database, select(decision_inputs.c.id).where(decision_inputs.c.id.not_in(_used())))
    for first in range(0, len(unused), _AT_ONCE):
        these = decision_inputs.c.id.in_(unused[first : first + _AT_ONCE])
        again = decision_inputs.c.id.not_in(_used(decisions.c.id > newest))
        async with turn, database.writing() as connection:
            await connection.execute(delete(decision_inputs).where(these, again))


def _used(*conditions: Any) -> Any:
    """The numbers of the inputs that decisions refer to."""
    return union(*(select(decisions.c[name]).where(decisions.c[name].is_not(None), *conditions) for name in _INPUTS))


async def _remove_capacity(database: Database) -> None:
    """Entries before the full one that the oldest decision needs; new decisions refer to newer ones only."""
    everything = await _first(database, select(func.max(capacity_log.c.id) + 1))
    oldest = await _first(database, select(func.min(decisions.c.capacity)))
    limit = everything if oldest is None else await _first(database, _full_before(oldest))
    query = select(capacity_log.c.id).where(capacity_log.c.id < (limit or 0)).order_by(capacity_log.c.id)
    while found := await _all(database, query.limit(_AT_ONCE)):
        async with database.writing() as connection:
            await connection.execute(delete(capacity_log).where(capacity_log.c.id.in_(found)))


def _full_before(entry: int) -> Any:
    return select(func.max(capacity_log.c.id)).where(capacity_log.c.full, capacity_log.c.id <= entry)


async def _first(database: Database, query: Any) -> int | None:
    async with database.reading() as connection:
        found: int | None = (await connection.execute(query)).scalar_one_or_none()
        return found


async def _all(database: Database, query: Any) -> Sequence[int]:
    async with database.reading() as connection:
        return list((await connection.execute(query)).scalars())
