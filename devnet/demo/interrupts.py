"""Ctrl-C, SIGTERM and the end of the terminal stop all that the demo started; the demo then ends as interrupted."""

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
    """`came` is true from the first signal on. What the first signal does depends on the place: inside `guard` it
    cancels the work, inside `held` and after `guard` it is only noted, elsewhere it raises `Interrupted` at once. A
    second signal raises `Interrupted` everywhere.
    """

    def __init__(self) -> None:
        self.came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._held = False

    @contextmanager
    def installed(self) -> Iterator[Self]:
        """Handle the signals in the block. SIGINT and SIGTERM are handled even if the parent ignored them, as shells do
        for background processes; an ignored SIGHUP stays ignored, since that is what `nohup` is for.
        """
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._arrived) for number in numbers}
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
            self._loop, self._held = None, True
            return await task
        await _cancel_until_done(task)
        raise Interrupted

    @contextmanager
    def held(self) -> Iterator[None]:
        """Only note the first signal that comes in the block: it cleans up, which a signal must not cut short."""
        before, self._held = self._held, True
        try:
            yield
        finally:
            self._held = before

    def check(self) -> None:
        """Raise `Interrupted` if a signal came."""
        if self.came:
            raise Interrupted

    def hang_up(self) -> None:
        """Do what SIGHUP does: at first as any signal, later nothing. A shell that ends sends it several times."""
        if not self.came:
            self._arrived(signal.SIGTERM, None)

    def _arrived(self, number: int, frame: object) -> None:
        if number == signal.SIGHUP:
            return self.hang_up()
        first, self.came = not self.came, True
        if not first or (self._loop is None and not self._held):
            raise Interrupted
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)
        return None


async def _cancel_until_done(task: asyncio.Task[None]) -> None:
    """Cancel `task` repeatedly until it is done; its result and error are ignored."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_S)
    if not task.cancelled():
        task.exception()
