"""`PulumiEngine`, the engine as the daemon calls it. It satisfies `provider.protocols.StackEngine` and imports no
Pulumi.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from lease.spec import LeaseSpec
from stacks.common.causes import cause_of
from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError, NeverBegun, WorkerLost
from stacks.common.files import hold, place_kubeconfig, prepare_home, prepare_key
from stacks.common.keyed_locks import KeyedLocks
from stacks.common.notes import StackNotes
from stacks.common.priority import Priority
from stacks.common.processes import end, survivors
from stacks.common.results import Operation, StackResult
from stacks.common.term import refuse_after_term
from stacks.common.wire import Task
from stacks.engine.load import Load
from stacks.engine.pool import Pool, WorkerProcess, worker_environment
from stacks.engine.recorded_state import recorded_stacks
from stacks.engine.resident import ResidentEngine
from stacks.engine.shared_stacks import NotedStacks, listed_stacks

__all__ = ["PulumiEngine"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A task with its place in the queue. `tenant`: the lease's owner, or the stack itself where the owner is not
    known.
    """

    task: Task
    priority: Priority
    tenant: str
    at: float


class PulumiEngine:
    """Applies lease stacks in worker processes: one operation a stack at a time, `config.workers` side by side.

        engine = PulumiEngine(config)
        await engine.start()            # or leave it to the first operation
        result = await engine.up(spec)
        await engine.close()

    What goes wrong with a lease is a result with `ok` false. `start` raises `DataInUse` or `EngineError`. With
    `config.engine` "resident" one process runs all operations where it can, and command lines run them where it cannot:
    `on_resident_problem` hears why, and an empty text when it runs them again.
    """

    def __init__(self, config: EngineConfig, *, on_resident_problem: Callable[[str], None] | None = None) -> None:
        self._config = config.model_copy(update={"data": config.data.absolute()})
        self._pool = Pool(self._config)
        self._inherited = inherited = worker_environment(self._config)
        self._noted: NotedStacks | None = None
        self._listed: set[str] | None = None
        self._resident: ResidentEngine | None = None
        if config.engine == "resident":
            self._resident = ResidentEngine(self._config, inherited, on_problem=on_resident_problem)
        self._tenants: dict[str, str] = {}
        self._stacks = KeyedLocks[str]()
        self._starting = asyncio.Lock()
        self._hold: int | None = None
        self._resident_start: asyncio.Task[None] | None = None

    def share(self, notes: StackNotes) -> None:
        """Keep notes where other machines find them from now on; for another backend than a folder."""
        self._noted = NotedStacks(self._config, notes)

    async def start(self, *, await_resident: bool = True, with_resident: bool = True) -> None:
        """Take the data folder, make the key, end the processes that a killed engine left. A second call does
        nothing. Without `await_resident` the resident engine starts meanwhile, and the first operation waits for it: a
        restart is then ready a second earlier. Without `with_resident` it starts with the next call or the first
        operation.
        """
        async with self._starting:
            if self._hold is None:
                self._hold = await asyncio.to_thread(self._prepare)
                self._pool.open()
            if with_resident and self._resident_start is None and self._resident is not None:
                self._resident_start = asyncio.create_task(self._resident.start(), name="resident engine")
        if await_resident and self._resident_start is not None:
            await asyncio.shield(self._resident_start)

    async def close(self) -> None:
        """Interrupt running operations and end the workers."""
        await self._pool.close()
        if self._resident_start is not None:
            self._resident_start.cancel()
            await asyncio.wait({self._resident_start})
            self._resident_start = None
        if self._resident is not None:
            await self._resident.stop()
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    async def preview(self, spec: LeaseSpec) -> StackResult:
        """The changes that `up` would make, with their paths."""
        return await self._run(Task(operation=Operation.PREVIEW, stack=spec.namespace, spec=spec))

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        """Make the cluster hold exactly the objects of `spec`; the stack is created if needed."""
        return await self._run(Task(operation=Operation.UP, stack=spec.namespace, spec=spec), priority)

    async def refresh(self, stack: str) -> StackResult:
        """Read the stack's objects from the cluster into its state."""
        return await self._run(Task(operation=Operation.REFRESH, stack=stack), Priority.REPAIR)

    async def destroy(self, stack: str) -> StackResult:
        """Delete everything that the stack holds, then the stack itself. A stack that does not exist is a success."""
        result = await self._run(Task(operation=Operation.DESTROY, stack=stack), Priority.DESTROY)
        if result.ok:
            self._tenants.pop(stack, None)
        return result

    async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
        """Run a task that another process has made; as the methods above."""
        return await self._run(task, priority)

    async def stacks(self) -> Sequence[str]:
        """Names of the lease stacks. Another backend is asked once, and again after an operation that failed. Raises
        `EngineError`.
        """
        if not self._config.backend:
            return await asyncio.to_thread(recorded_stacks, self._config)
        await self.start(await_resident=False)
        if self._listed is None:
            self._listed = set(await listed_stacks(self._config, self._inherited))
        return sorted(self._listed)

    @property
    def load(self) -> Load:
        """The running and waiting operations at this moment, for status and metrics."""
        return self._pool.load

    @property
    def resident(self) -> ResidentEngine | None:
        """The resident engine, with `config.engine` "resident"."""
        return self._resident

    def worker_pids(self) -> list[int]:
        """Process ids of the workers, for status and memory figures."""
        return self._pool.pids()

    def _prepare(self) -> int:
        descriptor = hold(self._config.data)
        try:
            prepare_key(self._config.key_file, make=self._config.key is None)
            prepare_home(self._config.home, self._config.quiet_home)
            place_kubeconfig(self._config.kubeconfig, self._config.kubeconfig_copy)
            self._config.stacks.mkdir(mode=0o700, exist_ok=True)
            end(survivors(self._config.data))
            shutil.rmtree(self._config.sockets, ignore_errors=True)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    async def _run(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
        self._config.folder(task.stack)  # refuses what is no plain name
        if task.spec is not None:
            self._tenants[task.stack] = task.spec.lease.owner
        asked = _Asked(task, priority, self._tenants.get(task.stack, task.stack), time.monotonic())
        async with self._stacks.hold(task.stack):
            try:
                await self.start(await_resident=False)
                refuse_after_term(self._config.data)
                return self.saw(await self._in_noted(asked))
            except EngineError as error:
                self._listed = None
                seconds = round(time.monotonic() - asked.at, 3)
                return StackResult(
                    task.operation, task.stack, ok=False, seconds=seconds, error=str(error),
                    cause=cause_of(str(error)),
                )  # fmt: skip

    def saw(self, result: StackResult) -> StackResult:
        """Keep the list of the stacks by the result of an operation here or elsewhere, and return the result. Where a
        failure leaves it unknown, it is read again.
        """
        if self._listed is not None and result.operation is not Operation.PREVIEW:
            gone = result.operation is Operation.DESTROY
            (self._listed.discard if gone else self._listed.add)(result.stack)
            self._listed = self._listed if result.ok else None
        return result

    async def _in_noted(self, asked: _Asked) -> StackResult:
        """The result from a worker; where several machines work, notes are written before and after."""
        if self._noted is None:
            return await self._in_worker(asked)
        result = await self._in_worker(replace(asked, task=await self._noted.begin(asked.task)))
        await self._noted.end(asked.task.stack)
        return result

    async def _in_worker(self, asked: _Asked) -> StackResult:
        """The result from a worker. Only use shows that an idle worker has died, and every idle one may have."""
        for _ in range(self._config.workers):
            with suppress(NeverBegun):
                return await self._in_one(asked)
        return await self._in_one(asked)

    async def _in_one(self, asked: _Asked) -> StackResult:
        worker = await self._pool.take(priority=asked.priority, tenant=asked.tenant)
        waited = round(time.monotonic() - asked.at, 3)
        usable = False
        try:
            async with self._serving(asked.task) as task:
                result = await self._bounded(worker, task)
            usable = True
            return replace(result, durations=replace(result.durations, queue_s=waited))
        finally:
            await asyncio.shield(self._put_back(worker, asked.task.stack, usable=usable))

    @asynccontextmanager
    async def _serving(self, task: Task) -> AsyncIterator[Task]:
        """The task with the socket of the resident engine, where one runs."""
        if self._resident is None:
            yield task
            return
        async with self._resident.serving() as socket:
            yield task.model_copy(update={"resident": socket})

    async def _bounded(self, worker: WorkerProcess, task: Task) -> StackResult:
        """Run with a limit: then an interrupt, then, if the interrupt has no effect, `WorkerLost`."""
        running = asyncio.create_task(worker.run(task))
        try:
            done, _ = await asyncio.wait({running}, timeout=self._config.operation_seconds)
            if not done:
                await worker.interrupt()
                done, _ = await asyncio.wait({running}, timeout=self._config.interrupt_seconds)
        finally:
            if not running.done():
                running.cancel()
        what = f"{task.operation} of {task.stack}"
        if not done:
            raise WorkerLost(f"{what} did not end within {self._config.operation_seconds:g} s nor when interrupted")
        try:
            return running.result()
        except WorkerLost as error:
            raise type(error)(f"{what} failed: {error}; {worker.last_words()}; the next one repairs it") from None

    async def _put_back(self, worker: WorkerProcess, stack: str, *, usable: bool) -> None:
        """Give the worker back; after a failure, first make sure that no process of its run lives."""
        try:
            await self._pool.give(worker, usable=usable)
        finally:
            if not usable:
                left = await asyncio.to_thread(survivors, self._config.data, stack)
                await asyncio.to_thread(end, left)
                if self._resident is not None:
                    await self._resident.end(stack)
