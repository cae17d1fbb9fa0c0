"""How long rows are kept, by their age. Old ones are deleted a few at a time, and other writers take turns in between.

Decisions have their own limits (`provider.market.record.log`), as have sent transactions and the totals of leases,
which the funds loop needs. What taxes and earnings are reckoned from is kept longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Table, delete, select, tuple_

from provider.errors import StoreError
from provider.protocols import Clock
from provider.repeats import Repeats
from provider.store.database import Database
from provider.store.tables import claims, earnings, fees, lease_states, leases, manifests, runs, versions

__all__ = ["KeepFor", "forget_ended", "forget_old", "keep_house"]

_AT_ONCE = 100
"""Rows of one transaction: a run has some hundred KiB at worst."""
_FIRST_S, _EVERY_S = 120.0, 3600.0
_TIMES: Sequence[tuple[Table, Any]] = (
    (runs, runs.c.started_at),
    (versions, versions.c.seen_at),
    (manifests, manifests.c.last_at),
    (lease_states, lease_states.c.at),
)
"""The tables of a lease's history, and the time of a row."""
_log = structlog.get_logger("lessor")


@dataclass(frozen=True, slots=True)
class KeepFor:
    """Seconds. `history`: of a lease, after its end. `claims`: hostnames and addresses, after they were given back.
    `earnings`: earnings and fees by day.
    """

    history: float
    claims: float
    earnings: float


async def keep_house(database: Database, keep: KeepFor, clock: Clock) -> None:
    """Delete what is too old, every hour, for ever. A start has other work first."""
    repeats, pause = Repeats(clock.monotonic), _FIRST_S
    while True:
        await clock.sleep(pause)
        pause = _EVERY_S
        try:
            gone = await forget_old(database, keep, now=clock.now())
        except StoreError as error:
            if repeats.is_news("store", str(error)):
                _log.warning("store.old_rows_not_deleted", problem=str(error))
        else:
            repeats.ended("store")
            _log.debug("store.old_rows_deleted", rows=gone)


async def forget_old(database: Database, keep: KeepFor, *, now: float) -> int:
    """Delete what is too old. Returns the number of rows. Raises `StoreError`; the next call goes on."""
    gone = await forget_ended(database, before=now - keep.history)
    gone += await _delete(database, claims, claims.c.released_at < now - keep.claims)
    day = datetime.fromtimestamp(max(0.0, now - keep.earnings), UTC).date().isoformat()
    for table in (earnings, fees):
        gone += await _delete(database, table, table.c.day < day)
    return gone


async def forget_ended(database: Database, *, before: float) -> int:
    """Forget leases closed before `before` (Unix seconds) with their history, and history as old of stacks without a
    known lease. Returns the number of rows. Raises `StoreError`.
    """
    ended = select(leases.c.namespace).where(leases.c.ended_at < before)
    known, gone = select(leases.c.namespace), 0
    for table, at in _TIMES:
        gone += await _delete(database, table, table.c.stack.in_(ended))
        gone += await _delete(database, table, (at < before) & table.c.stack.not_in(known))
    return gone + await _delete(database, leases, leases.c.ended_at < before)


async def _delete(database: Database, table: Table, condition: Any) -> int:
    """Delete the rows of which `condition` holds. They are searched before the writer's turn and judged again in it."""
    key, gone = tuple_(*table.primary_key.columns), 0
    columns = list(table.primary_key.columns)
    while True:
        async with database.reading() as connection:
            found = (await connection.execute(select(*columns).where(condition).limit(_AT_ONCE))).all()
        if not found:
            return gone
        these = columns[0].in_([row[0] for row in found]) if len(columns) == 1 else key.in_([tuple(r) for r in found])
        async with database.writing() as connection:
            gone += (await connection.execute(delete(table).where(these, condition))).rowcount
        if len(found) < _AT_ONCE:
            return gone
