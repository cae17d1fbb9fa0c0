"""Virtual time: an event loop that never waits. When nothing can run, its time jumps to the next timer.

`asyncio.timeout`, `Clock.sleep` and the latency of every fake share one time, so a test that waits an hour takes no
time, a busy machine changes no result, and a seed gives the same run everywhere. A test runs in virtual time when it
carries the mark `virtual_time`. The loop serves no sockets, processes or threads: a test of those runs in real time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from itertools import count
from typing import Any, TypeVar

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]

_T = TypeVar("_T")
_ROUNDS = 100_000
"""Far more rounds of the loop than any test needs: a task that spins is found, not waited for."""


class _Call:
    """What `asyncio.Handle` is to its users, and nothing more: a run makes a hundred thousand of them."""

    __slots__ = ("args", "callback", "context", "due")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context, due: float) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args
        self.context = context
        self.due = due

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is seconds since the start of the run. Timers of one time ring in the order in which they were set. What
    a callback raises ends the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0
        self._soon: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = count()
        self.get_debug = bool  # type: ignore[method-assign]  # asked for each future: False, without a Python call

    def time(self) -> float:
        return self._passed

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        call = _Call(callback, args, context or copy_context(), self._passed)
        self._soon.append(call)
        return call

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        call = _Call(callback, args, context or copy_context(), when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.call_at(self._passed + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Call `func` at once, in this thread: the time of another thread is not virtual."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def idle(self) -> bool:
        """Whether nothing but the caller can run before the next timer."""
        return not any(call.callback is not None for call in self._soon)

    def _run_once(self) -> None:
        """What is ready now; when nothing is, the time jumps to the next timer, and what is due then is ready."""
        soon = self._soon
        if not soon and not self._stopping:  # type: ignore[attr-defined]
            self._jump()
        for _ in range(len(soon)):
            call = soon.popleft()
            if call.callback is not None:
                call.context.run(call.callback, *call.args)

    def _jump(self) -> None:
        timers = self._timers
        while timers and (not self._soon or timers[0][0] <= self._passed):
            due, _, call = heapq.heappop(timers)
            if call.callback is not None:
                self._passed = max(self._passed, due)
                self._soon.append(call)
        if not self._soon:
            raise RuntimeError("deadlock: nothing can run and no timer is set")


class VirtualClock:
    """`protocols.Clock` on a `VirtualLoop`. On another loop, and outside one, the clock stands still.

    `jump` and `set` move the wall clock alone, as NTP or an administrator does.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.offset = now
        self.jumps: list[float] = []
        """In seconds; a jump back is negative."""
        self._latest = 0.0
        self.sleepers = 0
        """Calls of `sleep` that wait now."""

    def now(self) -> float:
        return self.offset + self.monotonic()

    def latest(self) -> float:
        """The latest time that the clock has ever shown."""
        return max(self._latest, self.now())

    def monotonic(self) -> float:
        loop = _running_loop()
        return loop.time() if isinstance(loop, VirtualLoop) else 0.0

    async def sleep(self, seconds: float) -> None:
        self.sleepers += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.sleepers -= 1

    async def advance(self, seconds: float) -> None:
        """Return `seconds` later, when everything due by then has run."""
        await asyncio.sleep(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Return when everything that can run before the next timer has run."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop), "the test needs the mark virtual_time"
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
            if loop.idle():
                return
        raise AssertionError(f"something still runs after {_ROUNDS} rounds without a timer")

    def jump(self, seconds: float) -> None:
        self._latest = self.latest()
        self.offset += seconds
        self.jumps.append(seconds)

    def set(self, now: float) -> None:
        self.jump(now - self.now())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def run_virtual(work: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
