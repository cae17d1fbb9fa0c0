"""The record of every run of the engine: its reason, what it did, how long it took and how it ended.

`RecordedEngine` wraps the real engine and has the same methods, so the lease loop does not know of it. The reason of a
run is derived: from whether a version was ever complete, whether the spec is that version, what the newest manifest is
and how the run before ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace

import structlog

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.errors import StoreError
from provider.lifecycle.spec_maker import SpecInputs
from provider.protocols import Clock, StackEngine
from provider.records.manifests import ManifestRecord
from provider.runs.log import (
    RunOutcome,
    RunReason,
    StoredRun,
    begin_run,
    end_run,
    interrupt_runs,
    keep_newest_runs,
    last_run,
    record_refusal,
)
from provider.runs.versions import forget_versions, manifest_of, save_version, versions_of
from provider.store import Database
from provider.store.sealing import KeyRing
from stacks.common import Operation, Priority, StackResult, mask, mask_result

__all__ = ["History", "RecordedEngine"]

_STORE_S = 5.0
"""A database that takes longer counts as one that does not answer: a lease does not wait for its history."""
_log = structlog.get_logger("lessor")


@dataclass(frozen=True, slots=True)
class History:
    """The store of runs. It keeps the newest `keep_runs` of a lease; `provider.store.retention` deletes by age."""

    database: Database
    ring: KeyRing
    clock: Clock
    keep_runs: int = 100


@dataclass(frozen=True, slots=True)
class _Seen:
    """The inputs from which the lease loop last made a spec, and the spec. `previous`: the last complete version, as
    the cluster stores it.
    """

    record: ManifestRecord
    previous: LeaseSpec | None
    newest: LeaseSpec

    @property
    def specs(self) -> tuple[LeaseSpec, ...]:
        return (self.newest,) if self.previous is None else (self.newest, self.previous)


class RecordedEngine:
    """`protocols.StackEngine` around another one. A store that cannot be written is logged and changes no operation."""

    def __init__(self, engine: StackEngine, history: History) -> None:
        self._engine = engine
        self._history = history
        self._seen: dict[str, _Seen] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._kept: set[str] | None = None

    @property
    def ring(self) -> KeyRing:
        """The keys of the history's details."""
        return self._history.ring

    async def start(self) -> None:
        """Prepare the store before any run: mark runs interrupted that an ended daemon left as running."""
        history = self._history
        try:
            async with asyncio.timeout(_STORE_S):
                await interrupt_runs(history.database)
        except (StoreError, TimeoutError) as error:
            _unwritable(error)

    def note_spec(self, inputs: SpecInputs, spec: LeaseSpec) -> None:
        """Remember the inputs of a spec; this is `SpecMaker.note`."""
        seen = self._seen[spec.namespace] = _Seen(inputs.record, inputs.previous, spec)
        if self._kept is not None and seen.previous is not None and spec.namespace not in self._kept:
            self._kept.add(spec.namespace)
            work = asyncio.create_task(self._keep(seen))
            self._writing.add(work)
            work.add_done_callback(self._writing.discard)

    async def begin_anew(self) -> None:
        """The store is an empty one: write the versions that the cluster runs, now and as each becomes known."""
        known = {stack: seen for stack, seen in self._seen.items() if seen.previous is not None}
        self._kept = set(known)
        for seen in known.values():
            await self._keep(seen)

    async def _keep(self, seen: _Seen) -> None:
        """Write the version that runs. Its manifest is known when that makes the same version today."""
        history, version = self._history, seen.previous
        if version is None:
            return
        same = version.content_hash() == seen.newest.content_hash()
        manifest_hash = seen.record.content_hash() if same else ""
        try:
            async with asyncio.timeout(_STORE_S):
                now = history.clock.now()
                await save_version(history.database, history.ring, version, manifest_hash=manifest_hash, now=now)
        except (StoreError, TimeoutError) as error:
            _unwritable(error)

    def mask(self, lease: LeaseId, text: str) -> str:
        """`text` without the secrets of the lease's tenant: an API server may quote them outside of runs too."""
        seen = self._seen.get(namespace_name(lease))
        for spec in seen.specs if seen and text else ():
            text = mask(text, spec)
        return text

    async def preview(self, spec: LeaseSpec) -> StackResult:
        return await self._applied(Operation.PREVIEW, spec, self._engine.preview(spec))

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        return await self._applied(Operation.UP, spec, self._engine.up(spec, priority=priority))

    async def note_refusal(self, spec: LeaseSpec, why: str) -> None:
        """Record that `spec` was refused before any run, and why; once, until something else is known of a version."""
        history = self._history
        run = self._run(Operation.UP, spec.namespace, spec_hash=spec.content_hash())
        for version in await self._specs(spec.namespace, spec):
            why = mask(why, version)
        run = replace(run, ended_at=run.started_at, outcome=RunOutcome.REFUSED, error=why)
        try:
            async with asyncio.timeout(_STORE_S):
                await record_refusal(history.database, await self._explained(run, spec))
        except (StoreError, TimeoutError) as error:
            _unwritable(error)

    async def _write(self, run: StoredRun) -> None:
        try:
            async with asyncio.timeout(_STORE_S):
                await end_run(self._history.database, self._history.ring, run)
        except (StoreError, TimeoutError) as error:
            _unwritable(error)

    async def refresh(self, stack: str) -> StackResult:
        run = self._run(Operation.REFRESH, stack, reason=RunReason.DRIFT_REPAIR)
        return await self._recorded(run, None, self._engine.refresh(stack))

    async def destroy(self, stack: str) -> StackResult:
        run = self._run(Operation.DESTROY, stack, reason=RunReason.CLOSE)
        result = await self._recorded(run, None, self._engine.destroy(stack))
        if result.ok:
            self._seen.pop(stack, None)
        return result

    async def stacks(self) -> Sequence[str]:
        return await self._engine.stacks()

    def _run(
        self, operation: Operation, stack: str, *, reason: RunReason = RunReason.NOT_KEPT, spec_hash: str = ""
    ) -> StoredRun:
        return StoredRun(stack, operation, self._history.clock.now(), reason, spec_hash)

    async def _applied(self, operation: Operation, spec: LeaseSpec, work: Awaitable[StackResult]) -> StackResult:
        run = self._run(operation, spec.namespace, spec_hash=spec.content_hash())
        return await self._recorded(run, spec, work)

    async def _recorded(self, run: StoredRun, spec: LeaseSpec | None, work: Awaitable[StackResult]) -> StackResult:
        """Do `work` and record it. The beginning is written while the engine works; a run that is cut off stays as
        begun.
        """
        beginning = asyncio.create_task(self._begin(run, spec))
        try:
            result = await work
            run = await beginning
        finally:
            beginning.cancel()
        return await self._end(run, spec, result)

    async def _begin(self, run: StoredRun, spec: LeaseSpec | None) -> StoredRun:
        database = self._history.database
        try:
            async with asyncio.timeout(_STORE_S):
                if spec is not None:
                    run = await self._explained(run, spec)
                    await save_version(
                        database, self._history.ring, spec, manifest_hash=run.manifest_hash, now=run.started_at
                    )
                return replace(run, id=await begin_run(database, run))
        except (StoreError, TimeoutError) as error:
            _unwritable(error)
            return run

    async def _explained(self, run: StoredRun, spec: LeaseSpec) -> StoredRun:
        """`run` with the reason why this spec is applied now, and the hash of the manifest that the spec was
        made from.
        """
        database, seen = self._history.database, self._seen.get(run.stack)
        before = await last_run(database, run.stack)
        known = await manifest_of(database, run.stack, run.spec_hash)
        if seen is None:
            return replace(run, manifest_hash=known)
        newest = seen.record.content_hash()
        if seen.previous is None:  # a version without services undoes a first one that was refused
            reason = RunReason.FIRST_DEPLOYMENT if spec.services else RunReason.ROLLBACK
            return replace(run, reason=reason, manifest_hash=newest)
        complete = seen.previous.content_hash()
        if run.spec_hash == complete:
            return replace(run, reason=_again(run, before), manifest_hash=known)
        same = await manifest_of(database, run.stack, complete) == newest
        reason = _own_reason(spec, seen.previous) if same else RunReason.MANIFEST_UPDATE
        return replace(run, reason=reason, manifest_hash=newest)

    async def _end(self, run: StoredRun, spec: LeaseSpec | None, result: StackResult) -> StackResult:
        """Write down the end of `run` and return the masked result."""
        history, stack = self._history, run.stack
        masked = mask_result(result, await self._specs(stack, spec))
        ended = replace(
            run,
            ended_at=history.clock.now(),
            outcome=RunOutcome.DONE if result.ok else RunOutcome.FAILED,
            cause=masked.cause.value if masked.cause else "",
            error=masked.error,
            summary=masked.summary,
            result=masked,
        )
        try:
            async with asyncio.timeout(_STORE_S):
                await end_run(history.database, history.ring, ended)
                await keep_newest_runs(history.database, stack, keep=history.keep_runs)
                if run.operation is Operation.DESTROY and result.ok:
                    await forget_versions(history.database, stack)
        except (StoreError, TimeoutError) as error:
            _unwritable(error)
        return masked

    async def _specs(self, stack: str, spec: LeaseSpec | None) -> list[LeaseSpec]:
        """Every version whose secrets an error or a change may quote, the newest first."""
        seen = self._seen.get(stack)
        recent = [*((spec,) if spec else ()), *(seen.specs if seen else ())]
        try:
            async with asyncio.timeout(_STORE_S):
                return [*recent, *await versions_of(self._history.database, self._history.ring, stack)]
        except (StoreError, TimeoutError) as error:
            _log.error("store.unreadable", problem=str(error) or type(error).__name__)
            return recent


def _own_reason(spec: LeaseSpec, complete: LeaseSpec) -> RunReason:
    """Why the same manifest makes another version."""
    if complete.builder_version != spec.builder_version:
        return RunReason.UPGRADE
    return RunReason.RECREATE if complete.kept != spec.kept else RunReason.SETTINGS_CHANGE


def _again(run: StoredRun, before: StoredRun | None) -> RunReason:
    """Why the complete version is applied again: a rollback after another version failed, else the repair of drift."""
    if before is None or before.outcome is RunOutcome.DONE or before.reason is RunReason.OPERATOR:
        return RunReason.DRIFT_REPAIR
    return before.reason if before.spec_hash == run.spec_hash else RunReason.ROLLBACK


def _unwritable(error: Exception) -> None:
    _log.error("store.unwritable", problem=str(error) or f"no answer within {_STORE_S:g} s", what="history of runs")
