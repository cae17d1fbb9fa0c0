"""The last known status of every lease, and the search for the lease that an operator names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from lease.ids import LeaseId, namespace_name
from provider.errors import StoreError
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store.database import Database
from provider.store.tables import leases, runs, versions

__all__ = ["find_lease", "forget_ended", "known_leases", "save_status"]

_MIN_PREFIX = 4
_MAX_LISTED = 8
_MAX_NAME = 200


async def save_status(database: Database, status: LeaseStatus) -> None:
    """Replace the status of this lease."""
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


async def forget_ended(database: Database, *, before: float) -> int:
    """Forget leases closed before `before` (Unix seconds) with their runs, and old runs of stacks without a known
    lease. Returns the number of leases.
    """
    ended = select(leases.c.namespace).where(leases.c.ended_at < before)
    async with database.writing() as connection:
        names = (await connection.execute(ended)).scalars().all()
        for table in (runs, versions):
            await connection.execute(delete(table).where(table.c.stack.in_(ended)))
        await connection.execute(delete(leases).where(leases.c.ended_at < before))
        orphaned = runs.c.stack.not_in(select(leases.c.namespace))
        await connection.execute(delete(runs).where(runs.c.started_at < before, orphaned))
    return len(names)


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
