"""A worker's machine: it runs what the leader asks for a stack, with the engine that the leader would have used."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from provider.errors import StoreError
from provider.workers.followed_term import FollowedTerm
from provider.workers.lease_locks import LeaseLocks
from provider.workers.operations import Asked, Operations
from stacks.common import FailureCause, Priority, StackResult, Task

__all__ = ["Performer", "WorkerHost"]

_log = structlog.get_logger("lessor")


class Performer(Protocol):
    """What runs operations here: `PulumiEngine`."""

    async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult: ...


class WorkerHost:
    """`term` is None where no leader is elected; the term of every task is 0 then. `closing`: nothing is begun, and
    what is interrupted is left to another worker.
    """

    def __init__(self, engine: Performer, operations: Operations, locks: LeaseLocks, *, name: str) -> None:
        self._engine, self._operations, self._locks, self.name = engine, operations, locks, name
        self.term: FollowedTerm | None = None
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.closing = False

    async def idle(self) -> None:
        """Return when no operation runs."""
        await self._quiet.wait()

    async def work(self, stack: str, term: int) -> str:
        """Do what is asked for the stack in this term. Returns what was done, for the log; a task that came twice, that
        another worker has, or that is of another term, does nothing.
        """
        if problem := self._refusal(term):
            return problem
        async with self._locks.hold(stack) as held:
            if not held:
                return "another worker has the lease's lock"
            self._running += 1
            self._quiet.clear()
            try:
                return await self._done(stack, term)
            finally:
                self._running -= 1
                if not self._running:
                    self._quiet.set()

    async def _done(self, stack: str, term: int) -> str:
        asked = await self._operations.begin(stack, worker=self.name, term=term)
        if asked is None:
            return "nothing is asked for"
        if problem := self._refusal(term):  # the rows may have taken long
            return problem
        result = await self._performed(asked)
        if self.closing:
            return "interrupted, since this worker ends"  # another one takes the row
        await self._operations.end(stack, asked.number, result)
        _log.info("queue.done", stack=stack, operation=result.operation.value, ok=result.ok, seconds=result.seconds)
        return "done"

    async def _performed(self, asked: Asked) -> StackResult:
        """The engine's result. A full disk, or a defect here, is one too: the leader tries again, perhaps elsewhere."""
        task = asked.task
        try:
            return await self._engine.perform(task, asked.priority)
        except Exception as error:
            _log.exception("queue.operation_failed", stack=task.stack)
            problem = f"{self.name} failed: {type(error).__name__}: {error}"
            return StackResult(
                task.operation, task.stack, ok=False, seconds=0.0, error=problem, cause=FailureCause.ENGINE
            )  # fmt: skip

    def _refusal(self, term: int) -> str:
        if self.closing:
            return "this worker ends"
        if self.term is None:
            return "" if term == 0 else f"term {term} is unknown: LESSOR_LEADER_LEASE is not set here"
        return self.term.problem(term)

    async def attempt(self, stack: str, term: int) -> None:
        """As `work`, for Celery: a store that fails is logged, and the leader rings again."""
        try:
            done = await self.work(stack, term)
        except StoreError as error:
            done = str(error)
        if done != "done":
            _log.info("queue.not_done", stack=stack, term=term, reason=done)
