"""Answers that are kept for a short time: a request that anybody may make does not become a query each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from provider.protocols import Clock

__all__ = ["CachedAnswer"]

_FAILED_S = 2.0
_T = TypeVar("_T")


class CachedAnswer(Generic[_T]):
    """The answer of `ask`, asked again when it is older than `seconds`. Simultaneous calls share one question. A
    failure is kept too, for `failed_seconds`.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[_T]], clock: Clock, *, seconds: float, failed_seconds: float = _FAILED_S
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._seconds = seconds
        self._failed_seconds = failed_seconds
        self._task: asyncio.Future[_T] | None = None
        self._until = 0.0

    async def get(self) -> _T:
        """The answer. Raises what `ask` raised."""
        if self._task is None or (self._task.done() and self._clock.monotonic() >= self._until):
            self._task = asyncio.ensure_future(self._ask())
            self._task.add_done_callback(self._finished)
        return await asyncio.shield(self._task)

    def _finished(self, task: asyncio.Future[_T]) -> None:
        failed = task.cancelled() or task.exception() is not None
        self._until = self._clock.monotonic() + (self._failed_seconds if failed else self._seconds)
