"""The last known status of every lease, and the search for the lease that an operator names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from lease.ids import LeaseId, namespace_name
from provider.errors import StoreError
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store.database import Database
from provider.store.tables import lease_states, leases

__all__ = ["StoredState", "find_lease", "known_leases", "save_status", "states_of"]

_MIN_PREFIX = 4
_MAX_LISTED = 8
_MAX_NAME = 200
_STATES_KEPT = 200
"""Changes of the state that are kept of a lease: one that crashes all day has hundreds a day."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state that a lease came to at `at` (Unix seconds)."""

    at: float
    phase: str
    reason: str


async def save_status(database: Database, status: LeaseStatus) -> None:
    """Replace the status of this lease, and add it to the lease's states when it is another one."""
    row: dict[str, Any] = {
        "lease": str(status.lease),
        "phase": status.phase.value,
        "reason": status.reason,
        "since": status.since,
        "attempts": status.attempts,
        "ended_at": status.since if status.phase is Phase.CLOSED else None,
    }
    namespace = namespace_name(status.lease)
    async with database.writing() as connection:
        known = update(leases).where(leases.c.namespace == namespace).values(row)
        if not (await connection.execute(known)).rowcount:
            await connection.execute(insert(leases).values(row | {"namespace": namespace}))
        await _add_state(connection, namespace, status)


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


async def _add_state(connection: Any, stack: str, status: LeaseStatus) -> None:
    own, new = lease_states.c.stack == stack, (status.phase.value, status.reason)
    newest = select(lease_states).where(own).order_by(lease_states.c.id.desc())
    last = (await connection.execute(newest.limit(1))).mappings().one_or_none()
    if last is not None and (last["phase"], last["reason"]) == new:
        return
    row = {"stack": stack, "at": status.since, "phase": new[0], "reason": new[1]}
    await connection.execute(insert(lease_states).values(row))
    beyond = (await connection.execute(newest.offset(_STATES_KEPT).limit(1))).mappings().one_or_none()
    if beyond is not None:
        await connection.execute(delete(lease_states).where(own, lease_states.c.id <= beyond["id"]))


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
