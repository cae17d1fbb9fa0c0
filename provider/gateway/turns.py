"""Turns: what peers send is worked on for a few milliseconds a pass of the event loop, however many peers send."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Turns"]

_SLICE_S = 0.005


class Turns:
    """A queue of short pieces of work. One piece may take longer than the slice; the next one then waits a pass."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, work: Callable[[], None]) -> None:
        """Do `work` in this pass of the loop or in one of the next. `work` must not raise."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting.append(work)

    def _run(self) -> None:
        end = time.monotonic() + _SLICE_S
        while self._waiting:
            self._waiting.popleft()()
            if time.monotonic() >= end and self._waiting:
                asyncio.get_running_loop().call_soon(self._run)
                return
