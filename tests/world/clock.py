"""A clock that stands still until it is moved; sleepers wake in the order of their time."""

from __future__ import annotations

import asyncio
import heapq
import itertools

__all__ = ["FakeClock"]


class FakeClock:
    """`protocols.Clock`. `advance` moves the time and lets whoever wakes run."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._start = now
        self._passed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers(self) -> int:
        """How many wait now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move on step by step: a sleeper that sleeps again within the time is woken again."""
        end = self._passed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._passed = max(self._passed, at)
                woken.set_result(None)
                await self.settle()
        self._passed = end
        await self.settle()

    async def settle(self, rounds: int = 50) -> None:
        """Let everything that can run now run."""
        for _ in range(rounds):
            await asyncio.sleep(0)
