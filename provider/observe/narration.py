"""The narration of leases: a log line for every change of state and of a resource; the states of each lease and the
manifests accepted for it go to the store. `provider.runs.history` records the runs of the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import structlog

from lease.ids import LeaseId
from provider.errors import StoreError
from provider.lifecycle.state import LEASE_STATE, STACK_RESULT, LeaseStatus, Phase, StackReport
from provider.metrics import DEPLOYMENT_HEALTH, DEPLOYMENT_MONITORS, DEPLOYMENTS, STACK_OPERATIONS, STACK_SECONDS
from provider.protocols import Bus
from provider.records.accepted import MANIFEST_STORED, AcceptedManifest
from provider.store import Database
from provider.store.leases import save_status
from provider.store.manifests import save_manifest
from stacks.common import Operation

__all__ = ["narrate"]

Mask = Callable[[LeaseId, str], str]
_HEALTH = {
    Phase.RUNNING: "up",
    Phase.DEGRADED: "down",
    Phase.UPDATE_FAILED: "up",
    Phase.UNKNOWN: "err",
    Phase.FAILED: "failed",
}
_WORK = {Operation.UP: "deploy", Operation.DESTROY: "teardown"}
_log = structlog.get_logger("lessor")


async def narrate(bus: Bus, database: Database, *, mask: Mask) -> None:
    """Log and store events until cancelled. `mask` removes a tenant's secrets from a text about his lease. When the
    store cannot be written, only its rows are lost.
    """
    rows = _Rows(database)
    async with bus.subscribe(LEASE_STATE, STACK_RESULT, MANIFEST_STORED) as events, asyncio.TaskGroup() as group:
        group.create_task(rows.write(), name="rows of leases")
        await _narrate(aiter(events), rows, mask)


_WAITING = 10_000


class _Rows:
    """States and manifests that wait for the store. What comes while the store writes shares the next transaction: a
    commit costs more than its rows. A store that hangs costs the oldest of the rows that wait.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._states = deque[LeaseStatus](maxlen=_WAITING)
        self._manifests = deque[AcceptedManifest](maxlen=_WAITING)
        self._some = asyncio.Event()

    def add(self, row: LeaseStatus | AcceptedManifest) -> None:
        if isinstance(row, LeaseStatus):
            self._states.append(row)
        else:
            self._manifests.append(row)
        self._some.set()

    async def write(self) -> None:
        """Write what waits; for ever."""
        while True:
            await self._some.wait()
            self._some.clear()
            states, accepted = tuple(self._states), tuple(self._manifests)
            self._states.clear()
            self._manifests.clear()
            if states:
                await _stored(save_status(self._database, *states))
            if accepted:
                await _stored(save_manifest(self._database, *accepted))


async def _narrate(events: AsyncIterator[object], rows: _Rows, mask: Mask) -> None:
    monitored: set[LeaseId] = set()
    async for event in events:
        match event:
            case LeaseStatus():
                _count_health(event, monitored)
                status = replace(event, reason=mask(event.lease, event.reason))
                _log.info("lease.state", lease=str(status.lease), phase=status.phase.value, reason=status.reason)
                rows.add(status)
            case StackReport():
                _log_run(event)
            case AcceptedManifest():
                rows.add(event)


def _count_health(status: LeaseStatus, monitored: set[LeaseId]) -> None:
    """Count the change of health. A lease is monitored from its first run to its end."""
    if state := _HEALTH.get(status.phase):
        DEPLOYMENT_HEALTH.labels(state).inc()
    if status.phase in (Phase.RUNNING, Phase.DEGRADED) and status.lease not in monitored:
        monitored.add(status.lease)
        DEPLOYMENT_MONITORS.labels("start").inc()
    elif status.phase in (Phase.CLOSING, Phase.CLOSED, Phase.QUARANTINED) and status.lease in monitored:
        monitored.discard(status.lease)
        DEPLOYMENT_MONITORS.labels("stop").inc()


def _log_run(report: StackReport) -> None:
    result, lease = report.result, str(report.lease)
    STACK_OPERATIONS.labels(result.operation.value, "ok" if result.ok else "failed").inc()
    STACK_SECONDS.labels(result.operation.value).observe(result.seconds)
    if work := _WORK.get(result.operation):
        DEPLOYMENTS.labels(work, "success" if result.ok else "fail").inc()
    for change in result.changes:
        diff = {"diff": list(change.diff)} if change.diff else {}
        _log.info(
            "stack.resource", lease=lease, operation=result.operation.value, op=change.op, type=change.type,
            name=change.name, **diff,
        )  # fmt: skip
    log = _log.info if result.ok else _log.warning
    log(
        "stack.result", lease=lease, operation=result.operation.value, ok=result.ok, seconds=round(result.seconds, 2),
        summary=dict(result.summary), **({"error": result.error} if result.error else {}),
    )  # fmt: skip


async def _stored(writing: Awaitable[None]) -> None:
    try:
        await writing
    except StoreError as error:
        _log.warning("store.unwritable", problem=str(error))
