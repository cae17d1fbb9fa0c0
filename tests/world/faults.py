"""What can go wrong between the daemon and its world, as one switchboard that every fake asks.

`until` holds the virtual time at which each kind of trouble ends; counts by kind are what a run reports.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from random import Random

__all__ = ["Faults"]


class Faults:
    """One random source for all latencies; `on` and `hit` draw from it in the order in which things happen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.until: dict[str, float] = {}
        self.hits: Counter[str] = Counter()
        self.dead = False
        """The process was killed: what its cancelled tasks still try must not reach the world."""

    def start(self, kind: str, seconds: float) -> None:
        self.until[kind] = asyncio.get_running_loop().time() + seconds

    def stop(self) -> None:
        self.until.clear()

    def on(self, kind: str) -> bool:
        return self.until.get(kind, -1.0) > asyncio.get_running_loop().time()

    def hit(self, kind: str, chance: float = 0.5) -> bool:
        """Whether this call is hit by a trouble that is on now."""
        if self.on(kind) and self.random.random() < chance:
            self.hits[kind] += 1
            return True
        return False

    def refuses_writes(self) -> bool:
        """Whether the disk takes nothing now."""
        return self.dead or self.hit("disk full")

    def pick(self, kinds: Iterable[str], chance: float = 0.5) -> str:
        return next((kind for kind in kinds if self.hit(kind, chance)), "")

    async def latency(self, slow: str) -> None:
        await asyncio.sleep(self.random.uniform(0.001, 8.0 if self.hit(slow, 0.3) else 0.05))
