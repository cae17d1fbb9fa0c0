"""The log of the engine's operations on leases: what was done and why, what changed, how it ended.

A row is written when the operation begins and again when it ends, so an operation that a crash cut off is recognised.
The result is sealed with the operator's key; sums, outcome and the (masked) error can be read without the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import delete, insert, select, update

from provider.errors import StoreError
from provider.store.database import Database
from provider.store.sealing import KeyRing
from provider.store.tables import runs
from stacks.common import Operation, StackResult

__all__ = [
    "RunOutcome",
    "RunReason",
    "StoredRun",
    "begin_run",
    "end_run",
    "interrupt_runs",
    "keep_newest_runs",
    "last_run",
    "record_refusal",
    "runs_of",
]

_MAX_CHANGES = 500
"""A lease of fifty services has fewer changes; more would only fill the disk."""
_REFUSALS_KEPT = 20
"""A refusal costs a tenant one request: without a limit of their own, refusals would push out the runs."""


@cache
def _result_adapter() -> TypeAdapter[StackResult]:
    """Made when it is used: a start waits for none of it."""
    return TypeAdapter(StackResult)


class RunReason(StrEnum):
    """Why a run was made."""

    FIRST_DEPLOYMENT = "first deployment"
    MANIFEST_UPDATE = "manifest update"
    SETTINGS_CHANGE = "settings change"
    """The same manifest makes another version: settings or claims are different now."""
    UPGRADE = "upgrade"
    """Another Lessor made what runs."""
    RECREATE = "recreate"
    """An operator asked for what another Lessor made to be made anew."""
    DRIFT_REPAIR = "drift repair"
    ROLLBACK = "rollback"
    OPENED = "before the manifest"
    """A lease was won, and the engine began with what needs no manifest; recorded only when no run used it."""
    CLOSE = "close"
    OPERATOR = "operator"
    NOT_KEPT = "not kept"
    """In rows from before the reason was recorded, and when the store could not be read."""


_NO_NEWS = (RunReason.DRIFT_REPAIR.value, RunReason.ROLLBACK.value, RunReason.OPENED.value, RunReason.OPERATOR.value)
"""Reasons of runs that say nothing of a version of the tenant's."""


class RunOutcome(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    GIVEN_UP = "given up"
    """The run waited for a manifest; `cause` says why it waits no more. It is no failure: what it made is used
    later.
    """
    REFUSED = "refused"
    """The engine was not asked: a policy, what runs, or the API server's dry run refuses the version."""
    INTERRUPTED = "interrupted"
    """The daemon ended in the middle: the next operation finds out what this one did."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Times in Unix seconds; `ended_at` is None while the run goes on or when its end was not recorded.

    `cause` is a `FailureCause`, why the run was given up, or empty. `result` is the engine's result, masked and
    without outputs; None while there is none, or without its key. A refusal is an `up` of no duration.
    """

    stack: str
    operation: Operation
    started_at: float
    reason: RunReason = RunReason.NOT_KEPT
    spec_hash: str = ""
    manifest_hash: str = ""
    ended_at: float | None = None
    outcome: RunOutcome = RunOutcome.RUNNING
    cause: str = ""
    error: str = ""
    summary: Mapping[str, int] | None = None
    result: StackResult | None = None
    id: int = 0


async def begin_run(database: Database, run: StoredRun) -> int:
    """Record the beginning of a run. Returns its number for `end_run`."""
    async with database.writing() as connection:
        done = await connection.execute(insert(runs).values(_row(run) | {"key_id": "", "result": b""}))
        return int((done.inserted_primary_key or (0,))[0])


async def end_run(database: Database, ring: KeyRing, run: StoredRun) -> None:
    """Record the end of a run. A run whose beginning could not be written (`id` 0), or is in another database, becomes
    a row now.
    """
    row = _row(run) | {"key_id": "", "result": b""}
    if run.result is not None:
        kept = replace(run.result, changes=run.result.changes[:_MAX_CHANGES], outputs={})
        row |= {"key_id": ring.newest, "result": ring.seal(_result_adapter().dump_json(kept))}
    async with database.writing() as connection:
        begun = (runs.c.id == run.id, runs.c.stack == run.stack, runs.c.started_at == run.started_at)
        if not run.id or not (await connection.execute(update(runs).where(*begun).values(row))).rowcount:
            await connection.execute(insert(runs).values(row))


async def record_refusal(database: Database, run: StoredRun) -> None:
    """Record that a version was refused without a run. A refusal that was the last news of a version is not recorded
    again: its tenant may send the same manifest at any time.
    """
    own = (runs.c.stack == run.stack, runs.c.operation == Operation.UP.value)
    newest = select(runs).where(*own, runs.c.reason.not_in(_NO_NEWS)).order_by(runs.c.id.desc()).limit(1)
    refused = (runs.c.stack == run.stack, runs.c.outcome == RunOutcome.REFUSED.value)
    older = select(runs.c.id).where(*refused).order_by(runs.c.id.desc()).offset(_REFUSALS_KEPT)
    async with database.writing() as connection:
        before = (await connection.execute(newest)).mappings().one_or_none()
        if before is not None and _refusal(_run(before, ring=None)) == _refusal(run):
            return
        await connection.execute(insert(runs).values(_row(run) | {"key_id": "", "result": b""}))
        beyond = (await connection.execute(older)).scalars().all()
        await connection.execute(delete(runs).where(runs.c.id.in_(beyond)))


def _refusal(run: StoredRun) -> tuple[RunOutcome, str, str]:
    return run.outcome, run.spec_hash, run.error


async def interrupt_runs(database: Database) -> int:
    """Mark the runs interrupted that a daemon left as running when it ended. Returns their number. Call it at the
    start, when nothing runs.
    """
    running = update(runs).where(runs.c.outcome == RunOutcome.RUNNING.value)
    async with database.writing() as connection:
        done = await connection.execute(running.values(outcome=RunOutcome.INTERRUPTED.value))
        return int(done.rowcount)


async def keep_newest_runs(database: Database, stack: str, *, keep: int) -> None:
    """Delete all but the newest `keep` runs of a stack."""
    async with database.writing() as connection:
        query = select(runs.c.id).where(runs.c.stack == stack).order_by(runs.c.id.desc()).offset(keep).limit(1)
        oldest = (await connection.execute(query)).scalar_one_or_none()
        if oldest is not None:
            await connection.execute(delete(runs).where(runs.c.stack == stack, runs.c.id <= oldest))


async def last_run(database: Database, stack: str) -> StoredRun | None:
    """The newest run that applied a version (`up`), sealed parts left out; a refusal is none."""
    applies = (
        runs.c.operation == Operation.UP.value,
        runs.c.reason != RunReason.OPENED.value,
        runs.c.outcome != RunOutcome.REFUSED.value,
    )
    query = select(runs).where(runs.c.stack == stack, *applies)
    async with database.reading() as connection:
        found = (await connection.execute(query.order_by(runs.c.id.desc()).limit(1))).mappings().one_or_none()
    return None if found is None else _run(found, ring=None)


async def runs_of(
    database: Database, stack: str, *, limit: int = 100, ring: KeyRing | None = None
) -> Sequence[StoredRun]:
    """The newest `limit` runs, newest first. Without a ring, or where no key of it fits, `result` is None."""
    query = select(runs).where(runs.c.stack == stack).order_by(runs.c.id.desc()).limit(limit)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    return [_run(row, ring=ring) for row in rows]


def _row(run: StoredRun) -> dict[str, Any]:
    return {
        "stack": run.stack,
        "operation": run.operation.value,
        "reason": run.reason.value,
        "spec_hash": run.spec_hash,
        "manifest_hash": run.manifest_hash,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome.value,
        "summary": json.dumps(dict(run.summary or {})),
        "cause": run.cause,
        "error": run.error,
    }


def _run(row: Any, *, ring: KeyRing | None) -> StoredRun:
    return StoredRun(
        id=row["id"],
        stack=row["stack"],
        operation=Operation(row["operation"]),
        reason=RunReason(row["reason"]),
        spec_hash=row["spec_hash"],
        manifest_hash=row["manifest_hash"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        outcome=RunOutcome(row["outcome"]),
        cause=row["cause"],
        error=row["error"],
        summary=json.loads(row["summary"]),
        result=_opened(ring, bytes(row["result"])),
    )


def _opened(ring: KeyRing | None, sealed: bytes) -> StackResult | None:
    if ring is None or not sealed:
        return None
    try:
        return _result_adapter().validate_json(ring.open(sealed))
    except (StoreError, ValidationError):
        return None
