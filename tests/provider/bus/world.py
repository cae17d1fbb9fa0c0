"""Topics and buses of these tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex

from lease.ids import LeaseId
from provider.bus.redis import RedisBus
from provider.protocols.bus import Subscription, Topic
from provider.protocols.clock import SystemClock
from tests.world.patience import PATIENCE_S

A: Topic[int] = Topic("test-a", "akash.test.a", shared=int)
B: Topic[int] = Topic("test-b", shared=int)
LEASES: Topic[LeaseId] = Topic("test-leases", shared=LeaseId)
OWN: Topic[int] = Topic("test-own")
TOPICS = (A, B, LEASES, OWN)


class QuickClock(SystemClock):
    """Pauses between two tries are short, since a test waits for what comes after them."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))


def a_bus(url: str, *, provider: str = "", queue_size: int = 10_000, silent_s: float = 5.0) -> RedisBus:
    return RedisBus(
        url,
        provider=provider or token_hex(8),
        topics=TOPICS,
        clock=QuickClock(),
        queue_size=queue_size,
        silent_s=silent_s,
    )


@asynccontextmanager
async def running(*buses: RedisBus, connected: bool = True) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(bus.run()) for bus in buses]
    try:
        async with asyncio.timeout(PATIENCE_S):
            for bus in buses if connected else ():
                await bus.connected.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def take(subscription: Subscription, count: int = 1) -> list[object]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(aiter(subscription)) for _ in range(count)]
