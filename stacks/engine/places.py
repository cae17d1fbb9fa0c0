"""Places for operations that run side by side; waiting callers get one in the order of `stacks.engine.turns`."""

from __future__ import annotations

import asyncio
import time

from stacks.common.errors import WorkerLost
from stacks.common.priority import Priority
from stacks.engine.load import Load
from stacks.engine.turns import Turns

__all__ = ["CLOSED", "Places"]

CLOSED = "the engine is closed; the next engine repairs unfinished operations"


class Places:
    """At most `number` callers at once."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._turns: Turns[asyncio.Future[None]] = Turns()
        self._busy = 0
        self.closed = False

    @property
    def load(self) -> Load:
        """The running and waiting operations at this moment."""
        return Load(self._turns.depths(), self._turns.oldest(time.monotonic()), self._busy, self._number)

    def close(self) -> None:
        """Callers that wait get `WorkerLost`, and so does everyone who asks from now on."""
        self.closed = True
        while (waiting := self._turns.next()) is not None:
            if not waiting.done():
                waiting.set_exception(WorkerLost(CLOSED))

    async def take(self, *, priority: Priority, tenant: str) -> None:
        """Wait until the caller has a place, which it gives up with `leave`. Raises `WorkerLost`."""
        if self.closed:
            raise WorkerLost(CLOSED)
        if self._busy < self._number:
            self._busy += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.add(turn, priority=priority, tenant=tenant, since=time.monotonic())
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # the place came at the moment when the caller left
            self._turns.drop(turn)
            raise

    def leave(self) -> None:
        """Pass a place on, or give it up. No caller waits while a place is free."""
        while (turn := self._turns.next()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1
