"""`QueuedEngine`: the leader's `StackEngine` where the operations run in `lessor worker` processes.

It asks by a row, rings the bell, and waits for the row's end. Redis may lose what it has, and a worker may die at any
moment: the bell is rung again for a row that nobody works on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import structlog

from lease.spec import LeaseSpec
from provider.errors import StoreError
from provider.repeats import Repeats
from provider.workers.operations import Operations
from stacks.common import EngineConfig, FailureCause, KeyedLocks, Operation, Priority, StackResult, Task, WorkerLost
from stacks.engine import Load, Places

if TYPE_CHECKING:
    from provider.workers.bell import Bell  # most providers have no Celery

__all__ = ["QueuedEngine", "StackList"]

_LOOK_S = 0.15
_CHECK_S = 2.0
"""Between two searches for rows that nobody works on."""
_AGAIN_S, _AGAIN_MOST_S = 10.0, 60.0
"""Before the bell is rung again for a row that no worker has begun."""
_PATIENCE_S = 900.0
"""For a worker to begin an operation."""
_log = structlog.get_logger("lessor")


@dataclass(slots=True)
class _Waiting:
    """An operation that was asked for. `rings`: how often the bell rang; `next_ring`: monotonic second of the next."""

    number: str
    began: float
    done: asyncio.Future[StackResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    rings: int = 1
    next_ring: float = 0.0


class StackList(Protocol):
    """The list of the stacks, kept by what operations are known to have done: `PulumiEngine`."""

    async def stacks(self) -> Sequence[str]: ...

    def saw(self, result: StackResult) -> StackResult: ...


class QueuedEngine:
    """`places`: operations at once, in the order of the engine's turns. `local` lists the stacks. `term`: the number of
    this leader's term, 0 without an election; `over` says why it may ask for nothing any more. `locked`: those of some
    stacks on which a worker works.
    """

    def __init__(
        self,
        local: StackList,
        operations: Operations,
        bell: Bell,
        *,
        config: EngineConfig,
        places: int,
        term: Callable[[], int],
        locked: Callable[[Collection[str]], Awaitable[set[str]]],
        over: Callable[[], str] = lambda: "",
    ) -> None:
        self._local, self._operations, self._bell, self._config = local, operations, bell, config
        self._term, self._locked, self._over = term, locked, over
        self._places = Places(places)
        self._stacks = KeyedLocks[str]()
        self._waiting: dict[str, _Waiting] = {}
        self._tenants: dict[str, str] = {}
        self._something = asyncio.Event()
        self._repeats = Repeats(time.monotonic)

    @property
    def load(self) -> Load:
        """The operations that workers have, and those that wait for their turn."""
        return self._places.load

    async def preview(self, spec: LeaseSpec) -> StackResult:
        return await self._run(Task(operation=Operation.PREVIEW, stack=spec.namespace, spec=spec), Priority.UPDATE)

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        return await self._run(Task(operation=Operation.UP, stack=spec.namespace, spec=spec), priority)

    async def refresh(self, stack: str) -> StackResult:
        return await self._run(Task(operation=Operation.REFRESH, stack=stack), Priority.REPAIR)

    async def destroy(self, stack: str) -> StackResult:
        result = await self._run(Task(operation=Operation.DESTROY, stack=stack), Priority.DESTROY)
        if result.ok:
            self._tenants.pop(stack, None)
        return result

    async def stacks(self) -> Sequence[str]:
        """As `PulumiEngine.stacks`."""
        return await self._local.stacks()

    async def run(self) -> None:
        """Find results, and ring again where it is needed, until cancelled."""
        checked = 0.0
        while True:
            await self._something.wait()
            await asyncio.sleep(_LOOK_S)
            try:
                begun = await self._find_results()
                if time.monotonic() - checked >= _CHECK_S:
                    await self._ring_again(begun)
                    checked = time.monotonic()
                self._repeats.ended("store")
            except StoreError as error:
                if self._repeats.is_news("store", str(error)):
                    _log.error("store.unreadable", problem=str(error), what="operations of workers")
                await asyncio.sleep(_CHECK_S)

    async def _run(self, task: Task, priority: Priority) -> StackResult:
        self._config.folder(task.stack)  # refuses what is no plain name
        if task.spec is not None:
            self._tenants[task.stack] = task.spec.lease.owner
        began, tenant = time.monotonic(), self._tenants.get(task.stack, task.stack)
        async with self._stacks.hold(task.stack):
            try:
                await self._places.take(priority=priority, tenant=tenant)
            except WorkerLost as error:
                return _failed(task, str(error), began)
            try:
                result = await self._asked(task, priority)
            except StoreError as error:
                result = _failed(task, str(error), began)
            finally:
                self._places.leave()
        waited = max(0.0, round(time.monotonic() - began - result.seconds, 3))
        return self._local.saw(replace(result, durations=replace(result.durations, queue_s=waited)))

    async def _asked(self, task: Task, priority: Priority) -> StackResult:
        """The result of a worker. The operation goes on when this process ends, and the next one asks for another. A
        process that was suspended and wakes after its term must not replace what the next leader has asked for.
        """
        stack, now = task.stack, time.monotonic()
        if problem := self._over():
            return _failed(task, problem, now)
        number = await self._operations.ask(task, priority=priority, term=self._term())
        waiting = self._waiting[stack] = _Waiting(number, now, next_ring=now + _AGAIN_S)
        self._something.set()
        await self._ring(stack)
        try:
            return await waiting.done
        finally:
            del self._waiting[stack]
            if not self._waiting:
                self._something.clear()

    async def _ring(self, stack: str) -> None:
        problem = await self._bell.ring(stack, self._term())
        if not problem:
            self._repeats.ended("bell")
        elif self._repeats.is_news("bell", problem):
            _log.warning("queue.unreachable", problem=problem, effect="stack operations wait for LESSOR_STACK_QUEUE")

    async def _find_results(self) -> dict[str, str]:
        """Give results to those who wait. Returns stack → worker, empty for nobody, of what has not ended."""
        numbers = {stack: waiting.number for stack, waiting in self._waiting.items()}
        states = await self._operations.states(numbers)
        ended = {stack: state.result for stack, state in states.items() if state.result is not None}
        for stack in numbers.keys() - states.keys():
            self._give_up(stack, numbers[stack], "the operation's row is gone")
        for stack, result in ended.items():
            if (waiting := self._waiting.get(stack)) is not None and not waiting.done.done():
                waiting.done.set_result(result)
        if ended:
            await self._operations.forget([numbers[stack] for stack in ended])
        return {stack: state.worker for stack, state in states.items() if state.result is None}

    async def _ring_again(self, begun: dict[str, str]) -> None:
        """Ring for rows that nobody works on: their worker has died, or Redis has lost the task, or all are busy."""
        now, free = time.monotonic(), begun.keys() - await self._locked(begun)
        for stack in sorted(free & self._waiting.keys()):
            waiting = self._waiting[stack]
            if begun[stack] and self._repeats.is_news(stack, waiting.number + begun[stack]):
                _log.warning("queue.worker_lost", stack=stack, worker=begun[stack], effect="another worker takes over")
                waiting.next_ring = now
            if now >= waiting.next_ring:
                waiting.next_ring = now + min(_AGAIN_S * 2**waiting.rings, _AGAIN_MOST_S)
                waiting.rings += 1
                await self._ring(stack)
            if not begun[stack] and now - waiting.began > _PATIENCE_S:
                await self._operations.forget([waiting.number])
                self._give_up(stack, waiting.number, f"no worker has begun it in {_PATIENCE_S:g} s")

    def _give_up(self, stack: str, number: str, why: str) -> None:
        waiting = self._waiting.get(stack)
        if waiting is not None and waiting.number == number and not waiting.done.done():
            waiting.done.set_exception(StoreError(f"{why}; `lessor worker` runs stack operations"))


def _failed(task: Task, error: str, began: float) -> StackResult:
    seconds = round(time.monotonic() - began, 3)
    return StackResult(
        task.operation, task.stack, ok=False, seconds=seconds, error=error, cause=FailureCause.ENGINE
    )  # fmt: skip
