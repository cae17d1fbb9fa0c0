"""Updates that are opened before their manifest, beside everything else: given up, taken over, killed in the middle."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lease.spec import LeaseSpec
from stacks.engine.openings import fits
from tests.world.faults import Faults

__all__ = ["Openings"]

_WORKERS, _AT_MOST, _WAITS_S = 4, 2, 30.0


@dataclass(frozen=True)
class _Update:
    """`until`: virtual seconds at which a worker stops waiting; while it waits nothing of it goes on."""

    opening: LeaseSpec
    making: asyncio.Task[None]
    until: float


class Openings:
    """Those of one engine, which outlives the daemon's lives; `make` does what needs no manifest. `counts` says what
    came of them.
    """

    def __init__(self, faults: Faults, make: Callable[[LeaseSpec], Coroutine[None, None, None]]) -> None:
        self._faults = faults
        self._make = make
        self._updates: dict[str, _Update] = {}
        self._busy = 0
        self.counts: Counter[str] = Counter()

    @property
    def spare(self) -> int:
        return _WORKERS - self._busy - len(self._waiting())

    def open(self, opening: LeaseSpec) -> bool:
        """Begin one, unless that takes the last spare worker."""
        stack = opening.namespace
        if stack in self._updates or len(self._waiting()) >= _AT_MOST or self.spare <= 1:
            return False
        loop = asyncio.get_running_loop()
        self._updates[stack] = _Update(opening, loop.create_task(self._make(opening)), loop.time() + _WAITS_S)
        self.counts["opened"] += 1
        return True

    async def use(self, spec: LeaseSpec) -> bool:
        """Whether this update goes on in the one that was opened. Otherwise nothing of that goes on."""
        found = self._updates.get(spec.namespace)
        moved = self._faults.hit("plugin replaced")
        if found is None or found not in self._waiting() or moved or not fits(found.opening, spec):
            await self.end(spec.namespace)
            return False
        await asyncio.wait({found.making})
        self._updates.pop(spec.namespace, None)
        used = not found.making.cancelled()
        self.counts["opened_used"] += used
        return used

    async def end(self, stack: str) -> None:
        """Give one up, and wait until nothing of it runs."""
        found = self._updates.pop(stack, None)
        if found is not None:
            self.counts["opened_ended"] += 1
            found.making.cancel()
            await asyncio.wait({found.making})

    @contextmanager
    def working(self) -> Iterator[None]:
        """A worker does something else; where there was none, the update that waits longest has given up its own."""
        self._make_room()
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1

    def _make_room(self) -> None:
        if self.spare <= 0 and (waiting := self._waiting()):
            waiting[0].making.cancel()
            self._updates.pop(waiting[0].opening.namespace)
            self.counts["opened_ended"] += 1

    def kill(self) -> None:
        """With the daemon die its workers."""
        for found in self._updates.values():
            found.making.cancel()
            self.counts["opened_killed"] += 1
        self._updates.clear()

    def _waiting(self) -> list[_Update]:
        now = asyncio.get_running_loop().time()
        return [found for found in self._updates.values() if now < found.until]
