"""The history of lease stacks: what each engine operation did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import insert, select

from lease.ids import LeaseId
from provider.store.database import Database
from provider.store.tables import stack_updates
from stacks.results import Operation, ResourceChange, StackResult

__all__ = ["StoredUpdate", "record_update", "updates"]

_MAX_CHANGES = 500
"""A lease of fifty services changes fewer; more would only fill the disk."""


@dataclass(frozen=True, slots=True)
class StoredUpdate:
    """`result` as the engine gave it, without outputs; times in Unix seconds."""

    lease: str
    started_at: float
    spec_hash: str
    result: StackResult


async def record_update(
    database: Database, lease: LeaseId, result: StackResult, *, started_at: float, spec_hash: str = ""
) -> None:
    """Append one operation. Outputs are left out: they may hold what is secret."""
    row = {
        "lease": str(lease),
        "stack": result.stack,
        "operation": result.operation.value,
        "started_at": started_at,
        "seconds": result.seconds,
        "ok": result.ok,
        "spec_hash": spec_hash,
        "summary": json.dumps(dict(result.summary)),
        "changes": json.dumps([asdict(change) for change in result.changes[:_MAX_CHANGES]]),
        "error": result.error,
    }
    async with database.writing() as connection:
        await connection.execute(insert(stack_updates).values(row))


async def updates(database: Database, lease: LeaseId, *, limit: int = 100) -> Sequence[StoredUpdate]:
    """The newest `limit` operations of a lease, newest first."""
    query = select(stack_updates).where(stack_updates.c.lease == str(lease)).order_by(stack_updates.c.id.desc())
    async with database.reading() as connection:
        rows = (await connection.execute(query.limit(limit))).mappings().all()
    return [_update(row) for row in rows]


def _update(row: Any) -> StoredUpdate:
    changes = (ResourceChange(**{**item, "diff": tuple(item["diff"])}) for item in json.loads(row["changes"]))
    result = StackResult(
        operation=Operation(row["operation"]),
        stack=row["stack"],
        ok=row["ok"],
        seconds=row["seconds"],
        changes=tuple(changes),
        summary=json.loads(row["summary"]),
        error=row["error"],
    )
    return StoredUpdate(row["lease"], row["started_at"], row["spec_hash"], result)
