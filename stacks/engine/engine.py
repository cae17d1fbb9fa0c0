"""`PulumiEngine`: what the daemon calls. Satisfies `provider.protocols.StackEngine`; imports no Pulumi."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from lease.spec import LeaseSpec
from stacks.engine.config import PROJECT, EngineConfig
from stacks.engine.errors import EngineError, NeverBegun, WorkerLost
from stacks.engine.files import hold, place_kubeconfig, prepare_key
from stacks.engine.pool import Pool, WorkerProcess
from stacks.engine.processes import end, survivors
from stacks.engine.wire import Task
from stacks.priority import Priority
from stacks.results import Operation, StackResult

__all__ = ["PulumiEngine"]


class PulumiEngine:
    """Applies lease stacks in worker processes: one operation a stack at a time, `config.workers` side by side.

        engine = PulumiEngine(config)
        await engine.start()            # or leave it to the first operation
        result = await engine.up(spec)
        await engine.close()

    What goes wrong with a lease is a result with `ok` false. `start` raises `DataInUse` or `EngineError`.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config.model_copy(update={"data": config.data.absolute()})
        self._pool = Pool(self._config)
        self._stacks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._starting = asyncio.Lock()
        self._hold: int | None = None

    async def start(self) -> None:
        """Take the data folder, make the key, end what an engine that was killed has left. Does nothing twice."""
        async with self._starting:
            if self._hold is None:
                self._hold = await asyncio.to_thread(self._prepare)

    async def close(self) -> None:
        """Interrupt what runs and end the workers."""
        await self._pool.close()
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    async def preview(self, spec: LeaseSpec) -> StackResult:
        """What `up` would do, with the paths of every change."""
        return await self._run(Task(operation=Operation.PREVIEW, stack=spec.namespace, spec=spec))

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        """Make the cluster hold exactly what `spec` says; the stack is made if need be."""
        return await self._run(Task(operation=Operation.UP, stack=spec.namespace, spec=spec))

    async def refresh(self, stack: str) -> StackResult:
        """Read the stack's objects from the cluster into its state."""
        return await self._run(Task(operation=Operation.REFRESH, stack=stack))

    async def destroy(self, stack: str) -> StackResult:
        """Delete what the stack holds, then the stack itself. A stack that does not exist is a success."""
        return await self._run(Task(operation=Operation.DESTROY, stack=stack))

    async def stacks(self) -> Sequence[str]:
        """Names of the lease stacks in the data folder."""
        files = await asyncio.to_thread(lambda: sorted(self._config.stacks.glob(f"*/.pulumi/stacks/{PROJECT}/*.json")))
        return [file.stem for file in files if self._config.state_file(file.stem) == file]

    def worker_pids(self) -> list[int]:
        """Process ids of the workers, for status and memory figures."""
        return self._pool.pids()

    def _prepare(self) -> int:
        descriptor = hold(self._config.data)
        try:
            prepare_key(self._config.key_file)
            place_kubeconfig(self._config.kubeconfig, self._config.kubeconfig_copy)
            self._config.stacks.mkdir(mode=0o700, exist_ok=True)
            end(survivors(self._config.data))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    async def _run(self, task: Task) -> StackResult:
        self._config.folder(task.stack)  # refuses what is no plain name
        started = time.monotonic()
        async with self._only(task.stack):
            try:
                await self.start()
                return await self._in_worker(task)
            except EngineError as error:
                seconds = round(time.monotonic() - started, 3)
                return StackResult(task.operation, task.stack, ok=False, seconds=seconds, error=str(error))

    async def _in_worker(self, task: Task) -> StackResult:
        """A worker that died while it was idle is found out by using it; every idle one may have."""
        for _ in range(self._config.workers):
            with suppress(NeverBegun):
                return await self._in_one(task)
        return await self._in_one(task)

    async def _in_one(self, task: Task) -> StackResult:
        worker = await self._pool.take()
        usable = False
        try:
            result = await self._bounded(worker, task)
            usable = True
            return result
        finally:
            await asyncio.shield(self._put_back(worker, task.stack, usable=usable))

    async def _bounded(self, worker: WorkerProcess, task: Task) -> StackResult:
        """Run with a limit: then an interrupt, then, if even that is not heard, `WorkerLost`."""
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
        """Give the worker back; after an accident, first make sure that nothing of its run goes on."""
        try:
            await self._pool.give(worker, usable=usable)
        finally:
            if not usable:
                left = await asyncio.to_thread(survivors, self._config.data, stack)
                await asyncio.to_thread(end, left)

    @asynccontextmanager
    async def _only(self, stack: str) -> AsyncIterator[None]:
        """Serialise the operations of one stack."""
        lock, users = self._stacks.get(stack, (asyncio.Lock(), 0))
        self._stacks[stack] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            _, users = self._stacks[stack]
            self._stacks[stack] = (lock, users - 1)
            if users == 1:
                del self._stacks[stack]
