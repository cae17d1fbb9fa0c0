"""The last known status of every lease, and the search for the lease that an operator names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import bindparam, select, update

from lease.ids import LeaseId, namespace_name
from provider.errors import StoreError
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store.async_engine import AsyncConnection
from provider.store.database import Database
from provider.store.newest_rows import add_rows, newest_rows
from provider.store.tables import lease_states, leases

__all__ = ["StoredState", "find_lease", "known_leases", "save_status", "states_of"]

_MIN_PREFIX = 4
_MAX_LISTED = 8
_MAX_NAME = 200
_COLUMNS = ("lease", "phase", "reason", "since", "attempts", "ended_at")
_AT_ONCE = 100
_STATES_KEPT = 200
"""Changes of the state that are kept of a lease: one that crashes all day has hundreds a day."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state that a lease came to at `at` (Unix seconds)."""

    at: float
    phase: str
    reason: str


async def save_status(database: Database, *statuses: LeaseStatus) -> None:
    """Replace the status of these leases, in this order, and add to the states of each lease those that differ from the
    one before. A hundred share a transaction. Raises `StoreError`.
    """
    waiting = iter(statuses)
    while some := list(islice(waiting, _AT_ONCE)):
        async with database.writing() as connection:
            await _replace_status(connection, {namespace_name(status.lease): _lease_row(status) for status in some})
            newest = await newest_rows(connection, lease_states, {namespace_name(status.lease) for status in some})
            await add_rows(connection, lease_states, _changes(some, newest), kept=_STATES_KEPT)


async def _replace_status(connection: AsyncConnection, rows: Mapping[str, dict[str, Any]]) -> None:
    """`rows`: the columns of each lease, by its namespace."""
    found = await connection.execute(select(leases.c.namespace).where(leases.c.namespace.in_(rows)))
    known = set(found.scalars())
    if known:
        changed = update(leases).where(leases.c.namespace == bindparam("of_namespace"))
        values = [row | {"of_namespace": name} for name, row in rows.items() if name in known]
        await connection.execute(changed.values({name: bindparam(name) for name in _COLUMNS}), values)
    if new := [row | {"namespace": name} for name, row in rows.items() if name not in known]:
        await connection.execute(leases.insert(), new)


async def states_of(database: Database, stack: str, *, limit: int = 100) -> Sequence[StoredState]:
    """The newest `limit` states of a lease, newest first. Raises `StoreError`."""
    query = select(lease_states).where(lease_states.c.stack == stack).order_by(lease_states.c.id.desc()).limit(limit)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    return [StoredState(row["at"], row["phase"], row["reason"]) for row in rows]


async def known_leases(database: Database, *, closed: bool = False) -> Sequence[LeaseStatus]:
    """The status of every lease, by owner and dseq; closed ones only with `closed`."""
    query = select(leases) if closed else select(leases).where(leases.c.ended_at.is_(None))
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    return sorted((_status(row) for row in rows), key=lambda status: status.lease)


async def find_lease(database: Database, name: str) -> LeaseStatus:
    """The lease with this name: its id or the beginning of it (up to a slash), dseq, dseq/gseq/oseq, or the namespace
    or the beginning of it (four characters). Raises `StoreError` with the possible leases.
    """
    known = await known_leases(database, closed=True)
    found = [status for status in known if _matches(name, status.lease)]
    if len(found) == 1:
        return found[0]
    if found:
        raise StoreError(f"{name[:_MAX_NAME]!r} may be {_list(found)}: give more of its id")
    living = [status for status in known if status.phase is not Phase.CLOSED]
    hint = f"known are {_list(living)}" if living else "no lease is known"
    raise StoreError(f"there is no lease {name[:_MAX_NAME]!r}; {hint}")


def _lease_row(status: LeaseStatus) -> dict[str, Any]:
    ended_at = status.since if status.phase is Phase.CLOSED else None
    values = (str(status.lease), status.phase.value, status.reason, status.since, status.attempts, ended_at)
    return dict(zip(_COLUMNS, values, strict=True))


def _changes(statuses: Iterable[LeaseStatus], newest: dict[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each state that is another one than the state before. `newest`: the states that are stored."""
    new: list[dict[str, Any]] = []
    for status in statuses:
        stack = namespace_name(status.lease)
        row = {"stack": stack, "at": status.since, "phase": status.phase.value, "reason": status.reason}
        last = newest.get(stack)
        if last is None or (last["phase"], last["reason"]) != (row["phase"], row["reason"]):
            newest[stack] = row
            new.append(row)
    return new


def _matches(name: str, lease: LeaseId) -> bool:
    full, namespace = str(lease), namespace_name(lease)
    short = f"{lease.dseq}/{lease.gseq}/{lease.oseq}"
    whole = name.rstrip("/")
    if whole in (full, namespace, str(lease.dseq), short) or full.startswith(f"{whole}/"):
        return True
    return len(name) >= _MIN_PREFIX and namespace.startswith(name)


def _list(statuses: Sequence[LeaseStatus]) -> str:
    shown = "; ".join(f"{status.lease} ({status.phase.value})" for status in statuses[:_MAX_LISTED])
    more = len(statuses) - _MAX_LISTED
    return shown + (f"; and {more} more" if more > 0 else "")


def _status(row: Any) -> LeaseStatus:
    owner, dseq, gseq, oseq, provider = str(row["lease"]).split("/")
    lease = LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)
    phase = Phase(row["phase"]) if row["phase"] in list(Phase) else Phase.UNKNOWN
    return LeaseStatus(lease, phase, row["reason"], row["since"], row["attempts"])
