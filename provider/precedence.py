"""Precedence of requests over work that can wait: a tenant gets an answer before the provider works on the manifest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from provider.protocols import Clock
from provider.waits import wait_for_event

__all__ = ["Precedence"]

_LONGEST_S = 1.0
"""Requests that follow each other without a gap delay other work by no more than this, once."""


class Precedence:
    """`wait` returns when no request is in progress, and at the latest a second after the first of those that overlap
    began.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._since = 0.0
        self._none = asyncio.Event()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request is in progress."""
        if not self._count:
            self._since = self._clock.monotonic()
            self._none.clear()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def wait(self) -> None:
        left = self._since + _LONGEST_S - self._clock.monotonic()
        if self._count and left > 0:
            await wait_for_event(self._none, clock=self._clock, seconds=left)
