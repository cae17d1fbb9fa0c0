"""Ctrl-C and SIGTERM: whenever one comes, what was started is stopped, and the demo does not end as if it were done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self

__all__ = ["Interrupted", "Interrupts"]

_AGAIN_SECONDS = 5.0


class Interrupted(KeyboardInterrupt):
    """The person asked for the end."""


class Interrupts:
    """`came` is true from the first signal on. Outside `guard` a signal raises `Interrupted` where the program is; the
    second one does so everywhere.
    """

    def __init__(self) -> None:
        self.came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    @contextmanager
    def heard(self) -> Iterator[Self]:
        """Both signals are ours, also where the parent had them ignored, as shells do with what they start aside."""
        before = {number: signal.signal(number, self._arrived) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`. After a signal it is cancelled until it ends, for a cancellation can be lost in what it awaits,
        and `Interrupted` is raised, in a task that is not cancelled itself and so can clean up.
        """
        self._loop = asyncio.get_running_loop()
        task = asyncio.create_task(work)
        told = asyncio.create_task(self._event.wait())
        try:
            if not self.came:
                await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
        if not self.came:
            return await task
        await _ended(task)
        raise Interrupted

    def check(self) -> None:
        """Raise `Interrupted` if a signal came."""
        if self.came:
            raise Interrupted

    def _arrived(self, number: int, frame: object) -> None:
        first, self.came = not self.came, True
        if not first or self._loop is None:
            raise Interrupted
        self._loop.call_soon_threadsafe(self._event.set)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel it until it is over, however it then ended."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()
