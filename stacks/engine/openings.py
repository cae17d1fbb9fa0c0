"""Updates opened before their spec exists: engine and plugin started, namespace and isolation made, waiting.

So a tenant waits for the tenant's own objects only (toolchain.md §3, an update opened before the manifest exists). An
opened update never delays other work: it takes no last free worker, gives its worker up to any operation that has none,
and ends at its time limit or when another operation needs the stack. Then the ordinary way is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError, WorkerLost
from stacks.common.results import FailureCause, Operation, StackResult
from stacks.common.wire import Task
from stacks.engine.pool import Pool, WorkerProcess

__all__ = ["OnGivenUp", "OpenedUpdates", "PutBack", "fits"]

OnGivenUp = Callable[[StackResult, str], None]
"""Called with the result of an update that got no spec, and the reason; the reason is empty when it failed by
itself.
"""


class PutBack(Protocol):
    """Gives a worker back to its pool."""

    async def __call__(self, worker: WorkerProcess, stack: str, *, usable: bool) -> None: ...


def fits(opening: LeaseSpec, spec: LeaseSpec) -> bool:
    """Whether everything that `opening` makes is part of `spec` too: same lease, same cluster facts, same builder."""
    known = {"group": opening.group, "services": (), "hostnames": (), "leased_ips": (), "kept": ()}
    return spec.model_copy(update=known) == opening


@dataclass(eq=False)
class _Update:
    """`spec_future`: the spec, or cancelled when none will come, with the reason in `why`."""

    opening: LeaseSpec
    spec_future: asyncio.Future[LeaseSpec]
    why: str = ""
    waits: bool = False
    life: asyncio.Task[StackResult | None] = field(init=False)

    @property
    def useful(self) -> bool:
        return not self.spec_future.done() and not self.life.done()


class OpenedUpdates:
    """The opened updates of one engine, of which at most `config.open_updates` wait. `on_given_up` is called for each
    that began and got no spec, except at the end of the engine.
    """

    on_given_up: OnGivenUp | None = None

    def __init__(self, config: EngineConfig, pool: Pool, *, put_back: PutBack) -> None:
        self._config = config
        self._pool = pool
        self._put_back = put_back
        self._updates: dict[str, _Update] = {}

    @property
    def waiting(self) -> tuple[str, ...]:
        """Stacks whose update waits for its spec."""
        return tuple(stack for stack, update in self._updates.items() if update.waits and update.useful)

    def open(self, opening: LeaseSpec) -> bool:
        """Begin one if there is a free worker; False if not. Returns at once."""
        stack = opening.namespace
        if stack in self._updates or len(self._updates) >= self._config.open_updates or self._pool.load.spare <= 1:
            return False
        update = _Update(opening, asyncio.get_running_loop().create_future())
        update.life = asyncio.create_task(self._live(update))
        self._updates[stack] = update
        update.life.add_done_callback(lambda life: self._ended(stack, update))
        return True

    async def use(self, spec: LeaseSpec) -> StackResult | None:
        """The result of the stack's opened update. None when no opened update fits, or it ended before it used the
        spec: the caller then runs an ordinary `up`, which finds what was begun. Raises `EngineError` for an update
        that hangs.
        """
        update = self._updates.get(spec.namespace)
        if update is None or not fits(update.opening, spec) or not update.useful:
            await self.end(spec.namespace, why="it did not fit the manifest that came")
            return None
        del self._updates[spec.namespace]
        update.spec_future.set_result(spec)
        try:
            result = await update.life
        except WorkerLost:
            return None
        if result is None or not result.opened or result.cause is FailureCause.ENGINE:
            return None
        return result

    async def end(self, stack: str, *, why: str = "another operation needed its stack") -> None:
        """Give one up, and wait until no process of it runs."""
        update = self._updates.pop(stack, None)
        if update is not None:
            _give_up(update, why)
            await asyncio.wait({update.life})

    async def close(self) -> None:
        """Give all up without reports, since the engine ends as well."""
        self.on_given_up = None
        await asyncio.gather(*(self.end(stack) for stack in list(self._updates)))

    def make_room(self) -> None:
        """Give up the one that waits longest, because its worker is needed."""
        for update in self._updates.values():
            if update.useful:
                _give_up(update, "another operation needed its worker")
                return

    def _ended(self, stack: str, update: _Update) -> None:
        if self._updates.get(stack) is update:
            del self._updates[stack]
        if not update.life.cancelled():
            update.life.exception()  # its waiters have the exception; asyncio must not log it

    async def _live(self, update: _Update) -> StackResult | None:
        stack = update.opening.namespace
        worker = await self._pool.take_spare()
        if worker is None:
            return None
        usable = False
        try:
            task = _task(update)
            result = None if update.spec_future.cancelled() else await self._bounded(worker, task, update=update)
            usable = True
            self._tell(update, result)
            return result
        except EngineError as error:
            self._tell(update, StackResult(Operation.UP, stack, ok=False, seconds=0, error=str(error)))
            raise
        finally:
            await asyncio.shield(self._put_back(worker, stack, usable=usable))

    def _tell(self, update: _Update, result: StackResult | None) -> None:
        """Report an update that got no spec; one that got its spec is an operation like any other, and its caller
        reports it.
        """
        given = update.spec_future.done() and not update.spec_future.cancelled()
        if result is not None and not given and self.on_given_up is not None:
            self.on_given_up(result, update.why)

    async def _bounded(self, worker: WorkerProcess, task: Task, *, update: _Update) -> StackResult:
        """Run until a spec comes or the time limit is reached; from then on with the limits of any other operation."""
        running = asyncio.create_task(worker.run(task, waits=lambda: setattr(update, "waits", True)))
        limits = self._config
        try:
            await _first({running, update.spec_future}, limits.open_seconds)
            if not running.done() and await self._given(worker, update):
                await _first({running}, limits.operation_seconds)
            if not running.done():
                await worker.interrupt()
                await _first({running}, limits.interrupt_seconds)
        finally:
            if not running.done():
                running.cancel()
        if not running.done() or running.cancelled():
            raise EngineError(f"the opened update of {task.stack} did not end when interrupted")
        return running.result()

    async def _given(self, worker: WorkerProcess, update: _Update) -> bool:
        """Whether there was a spec, which the worker has now. From here on none comes any more."""
        if (
            _give_up(update, f"no manifest came within {self._config.open_seconds:g} s")
            or update.spec_future.cancelled()
        ):
            return False
        await worker.give(update.spec_future.result())
        return True


def _give_up(update: _Update, why: str) -> bool:
    """Whether this call decided it."""
    if first := update.spec_future.cancel():
        update.why = why
    return first


def _task(update: _Update) -> Task:
    return Task(operation=Operation.UP, stack=update.opening.namespace, spec=update.opening, opening=True)


async def _first(waited: set[asyncio.Future[StackResult] | asyncio.Future[LeaseSpec]], seconds: float) -> None:
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
