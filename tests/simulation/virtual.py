"""Virtual time: an event loop that never waits. When nothing can run, the clock jumps to the next timer.

So `asyncio.timeout`, `Clock.sleep` and every fake's latency share one time, and a seed gives the same run everywhere.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]

_T = TypeVar("_T")


class _NoWaiting(selectors.SelectSelector):
    """Instead of waiting for the network, of which there is none, the loop's time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: nothing can run and no timer is set")
        self.passed += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is seconds since the start of the run."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.passed


class VirtualClock:
    """`protocols.Clock` on a `VirtualLoop`; `jump` moves the wall clock alone, as NTP or a human does."""

    def __init__(self) -> None:
        self.offset = 1_700_000_000.0

    def now(self) -> float:
        return self.offset + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        self.offset += seconds


def run_virtual(work: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
