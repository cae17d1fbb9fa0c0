"""Waits on an event, a time or several answers, and pauses that grow with each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, TypeVar

from provider.protocols import Clock

__all__ = ["GrowingPause", "jittered", "side_by_side", "wait_for_event"]

_RANDOM = Random()  # noqa: S311  spreads clients, protects nothing
_MAX_EXPONENT = 20
_T = TypeVar("_T")
_R = TypeVar("_R")


async def wait_for_event(event: asyncio.Event, *, clock: Clock, seconds: float | None) -> None:
    """Return when `event` is set or when `seconds` of `clock` have passed; None sets no limit. `event` stays set."""
    waits: list[asyncio.Task[Any]] = [asyncio.create_task(event.wait())]
    if seconds is not None:
        waits.append(asyncio.create_task(clock.sleep(seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()


async def side_by_side(work: Callable[[_T], Awaitable[_R]], items: Iterable[_T], *, at_once: int) -> list[_R]:
    """The results of `work` in the order of the items, `at_once` at a time. The first failure is raised and ends
    all.
    """
    slots = asyncio.Semaphore(at_once)

    async def one(item: _T) -> _R:
        async with slots:
            return await work(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


@dataclass(frozen=True, slots=True)
class GrowingPause:
    """`first` seconds after the first failure in a row, then `factor` times as long each time, `longest` at most."""

    first: float
    longest: float = inf
    factor: float = 2.0

    def after(self, failures: int) -> float:
        """Seconds to wait after `failures` failures in a row, counted from 1."""
        return min(self.longest, self.first * self.factor ** min(failures - 1, _MAX_EXPONENT))


def jittered(seconds: float, *, random: Random = _RANDOM) -> float:
    """Half to the whole of `seconds`, so that clients that failed together do not return together."""
    return seconds * random.uniform(0.5, 1)
