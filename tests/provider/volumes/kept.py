"""A provider that keeps volumes, and its storage, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lease.ids import LeaseId
from lease.spec import LeaseSpec
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import PERSISTENT_VOLUME
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.storage import Storage
from tests.world.virtual import VirtualClock

__all__ = ["DAY", "GIB", "Kept", "L", "quarantined"]

L = a_lease()
DAY = 86400.0
GIB = 2**30


class Kept(World):
    """A provider that keeps volumes for a day, and its storage."""

    clock: VirtualClock

    def __init__(self, **config: Any) -> None:
        super().__init__(**{"volume_quarantine_s": DAY, **config})
        self.storage = Storage(self.cluster)

    async def with_volume(self, lease: LeaseId, size: int = GIB, **group: Any) -> LeaseSpec:
        """Running, its claim bound."""
        spec = await self.run(lease, a_group(volume_bytes=size, **group))
        self.storage.claim(spec)
        self.storage.settle()
        return spec

    async def close(self, lease: LeaseId, *, looks: int = 8) -> Phase:
        self.chain.put_lease(lease, LeaseState.CLOSED)
        for _ in range(looks):
            phase = (await self.check(lease)).phase
            self.cluster.settle()
            self.storage.settle()
            if phase in (Phase.CLOSED, Phase.QUARANTINED):
                return phase
        return phase

    @asynccontextmanager
    async def tended(self) -> AsyncIterator[VirtualClock]:
        looked: list[LeaseId] = []
        task = asyncio.create_task(self.reconciler.quarantine.run(looked.append))
        await self.clock.settle()
        try:
            yield self.clock
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def later(self, clock: VirtualClock, seconds: float) -> None:
        await clock.advance(seconds)
        self.storage.settle()
        await clock.settle()

    def volume(self, name: str = "pv-1") -> dict[str, Any]:
        found = self.cluster.find(PERSISTENT_VOLUME, name)
        assert found is not None
        return found


async def quarantined(**config: Any) -> Kept:
    world = Kept(**config)
    await world.with_volume(L)
    assert await world.close(L) is Phase.QUARANTINED
    return world
