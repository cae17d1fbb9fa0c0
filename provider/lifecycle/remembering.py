"""Brake and operators' words, written down whenever they differ from what was written last."""

from __future__ import annotations

from lease.ids import LeaseId
from provider.lifecycle.brake import Brake
from provider.lifecycle.standing import Memory, Standing, StandingWord
from provider.protocols import Clock

__all__ = ["Remembering"]


class Remembering:
    """`condemned` is the reconciler's own set: leases that an operator calls ended."""

    def __init__(self, memory: Memory, brake: Brake, *, condemned: set[LeaseId], clock: Clock) -> None:
        self._memory = memory
        self._brake = brake
        self._condemned = condemned
        self._clock = clock
        self._written: frozenset[tuple[LeaseId, StandingWord]] = frozenset()

    async def recall(self) -> None:
        """Once, before anything is looked at."""
        found = tuple(await self._memory.load())
        self._brake.restore(found, now=self._clock.monotonic(), wall=self._clock.now())
        self._condemned.update(each.lease for each in found if each.word is StandingWord.CONDEMNED)
        self._written = frozenset((each.lease, each.word) for each in found)

    async def remember(self) -> bool:
        """Whether everything is written down; what cannot be written is tried again at the next look."""
        standing = self._standing()
        said = frozenset((each.lease, each.word) for each in standing)
        if said == self._written:
            return True
        if written := await self._memory.save(standing):
            self._written = said
        return written

    def _standing(self) -> list[Standing]:
        now, wall = self._clock.monotonic(), self._clock.now()
        words = [Standing(lease, StandingWord.CONDEMNED, 0.0) for lease in self._condemned]
        return sorted([*words, *self._brake.standing(now=now, wall=wall)])
