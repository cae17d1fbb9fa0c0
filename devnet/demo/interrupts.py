"""Ctrl-C and SIGTERM stop everything that the demo started, and the demo then ends as interrupted."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self

__all__ = ["Interrupted", "Interrupts"]

_AGAIN_S = 5.0


class Interrupted(KeyboardInterrupt):
    """The user interrupted the demo."""


class Interrupts:
    """`came` is true from the first signal on. Outside `guard` a signal raises `Interrupted` at once; a second signal
    does so inside `guard` too.
    """

    def __init__(self) -> None:
        self.came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    @contextmanager
    def installed(self) -> Iterator[Self]:
        """Handle both signals in the block, even if the parent ignored them, as shells do for background processes."""
        before = {number: signal.signal(number, self._arrived) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`. After a signal, cancel `work` until it ends and raise `Interrupted`. The calling task is not
        cancelled, so that it can clean up. The cancellation is repeated because the awaited code can lose one.
        """
        self._loop = asyncio.get_running_loop()
        task = asyncio.create_task(work)
        signalled = asyncio.create_task(self._event.wait())
        try:
            if not self.came:
                await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            signalled.cancel()
        if not self.came:
            return await task
        await _cancel_until_done(task)
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


async def _cancel_until_done(task: asyncio.Task[None]) -> None:
    """Cancel `task` repeatedly until it is done; its result and error are ignored."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_S)
    if not task.cancelled():
        task.exception()
