"""Worker processes as the daemon sees them: started on demand, replaced when they die, ended with the engine."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque

from stacks.common.config import EngineConfig
from stacks.common.errors import NeverBegun, WorkerLost
from stacks.common.priority import Priority
from stacks.common.processes import DATA_MARK
from stacks.common.results import StackResult
from stacks.common.wire import (
    MAX_FRAME,
    Begun,
    Configure,
    Interrupt,
    Ready,
    Result,
    Task,
    decode,
    encode,
)
from stacks.engine.load import Load
from stacks.engine.places import CLOSED, Places

__all__ = ["Pool", "WorkerProcess", "worker_environment"]

START_S = 60.0
LEAVE_S = 5.0
_DROPPED = ("PULUMI_", "LESSOR_", "AP_", "AKASH_", "KUBECONFIG")
"""Prefixes of variables that a worker does not inherit: its settings come by frame, and some of these variables are
secrets.
"""


class WorkerProcess:
    """One worker. It has one holder, who runs one task at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._stderr: deque[str] = deque(maxlen=40)
        self._drain = asyncio.create_task(self._keep_stderr())
        self.operations = 0

    @classmethod
    async def start(cls, config: EngineConfig) -> WorkerProcess:
        """Start one and wait until it has imported its modules (about 1.5 s). Raises `WorkerLost`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "stacks.worker", f"{DATA_MARK}={config.data}"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=worker_environment(config),
            start_new_session=True,  # Ctrl-C is for the daemon alone
        )
        worker = cls(process)
        try:
            await worker._send(Configure(config=config))
            async with asyncio.timeout(START_S):
                await worker._receive()
        except (TimeoutError, WorkerLost) as error:
            await worker.stop()
            raise WorkerLost(f"a stack worker did not start: {error or 'no answer'}; {worker.last_words()}") from None
        except BaseException:
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def run(self, task: Task) -> StackResult:
        """Run the task to its end. Raises `WorkerLost` if the process ends first, `NeverBegun` if it ends before it
        took the task.
        """
        self.operations += 1
        try:
            await self._send(task)
            begun = await self._receive()
        except WorkerLost as error:
            raise NeverBegun(str(error)) from None
        frame = await self._receive()
        if not isinstance(begun, Begun) or not isinstance(frame, Result):
            raise WorkerLost("the worker sent an answer that was not expected")
        return frame.result

    async def interrupt(self) -> None:
        """Ask it to end the running operation; `run` still gets the result."""
        await self._send(Interrupt())

    async def stop(self) -> None:
        """Close its stdin, so that it ends its operation and itself; killed if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._drain

    def last_words(self) -> str:
        """The end of its stderr."""
        return " / ".join(self._stderr)[-2000:] or "it left no message"

    async def _send(self, frame: Configure | Task | Interrupt) -> None:
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(encode(frame))
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise WorkerLost(f"the worker's pipe is closed ({error})") from None

    async def _receive(self) -> Ready | Begun | Result:
        assert self._process.stdout is not None  # noqa: S101
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(4), "big")
            if size > MAX_FRAME:
                raise WorkerLost(f"the worker sent a frame of {size} bytes")
            frame = decode(await self._process.stdout.readexactly(size), to_worker=False)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise WorkerLost(f"the worker ended ({type(error).__name__})") from None
        if not isinstance(frame, Ready | Begun | Result):
            raise WorkerLost("the worker sent an unknown frame")
        return frame

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        while chunk := await self._process.stderr.read(4096):
            self._stderr.extend(line for line in chunk.decode(errors="replace").splitlines() if line.strip())


class Pool:
    """At most `config.workers` processes; waiting callers get one in the order of `stacks.engine.turns`."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._free: list[WorkerProcess] = []
        self._taken: set[WorkerProcess] = set()
        self._places = Places(config.workers)

    async def take(self, *, priority: Priority = Priority.UPDATE, tenant: str = "") -> WorkerProcess:
        """A living worker for the caller alone, who returns it with `give`. Raises `WorkerLost`: it does not start, or
        the pool is closed meanwhile.
        """
        await self._places.take(priority=priority, tenant=tenant)
        return await self._living()

    async def _living(self) -> WorkerProcess:
        """A worker for a place that the caller has; the place is given up if there is no worker for it."""
        try:
            worker = await self._idle() or await WorkerProcess.start(self._config)
            if self._places.closed:
                await worker.stop()
                raise WorkerLost(CLOSED)
        except BaseException:
            self._places.leave()
            raise
        self._taken.add(worker)
        return worker

    async def give(self, worker: WorkerProcess, *, usable: bool) -> None:
        """Take the worker back. One that is not usable, dead or old is ended, and the next `take` starts another."""
        self._taken.discard(worker)
        try:
            kept = usable and worker.alive and worker.operations < self._config.worker_operations
            if kept and not self._places.closed:
                self._free.append(worker)
            else:
                await worker.stop()
        finally:
            self._places.leave()

    @property
    def load(self) -> Load:
        """The running and waiting operations at this moment."""
        return self._places.load

    def pids(self) -> list[int]:
        """Process ids of all workers, busy ones included."""
        return [worker.pid for worker in (*self._free, *self._taken)]

    def open(self) -> None:
        """Allow `take` again after `close`."""
        self._places.closed = False

    async def close(self) -> None:
        """End all workers; running operations are interrupted, waiting ones never begin."""
        self._places.close()
        workers, self._free = [*self._free, *self._taken], []
        await asyncio.gather(*(worker.stop() for worker in workers))

    async def _idle(self) -> WorkerProcess | None:
        while self._free:
            worker = self._free.pop()
            if worker.alive:
                return worker
            await worker.stop()
        return None


def worker_environment(config: EngineConfig) -> dict[str, str]:
    """The daemon's variables that a process of the engine inherits, and the mark by which the process is found
    again.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return inherited | {DATA_MARK: str(config.data)}
