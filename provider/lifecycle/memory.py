"""Brake, operators' words and waits for manifests, written down whenever they differ from what was written last."""

from __future__ import annotations

import asyncio

from lease.ids import LeaseId
from provider.lifecycle.directives import Memory, Standing, StandingWord
from provider.lifecycle.ending.brake import Brake
from provider.lifecycle.manifest_wait import ManifestWaits
from provider.protocols import Clock

__all__ = ["Remembering"]

_AGAIN_S = 10.0
"""A store that does not answer is not asked at every look."""


class Remembering:
    """`condemned` is the reconciler's own set: leases that an operator calls ended."""

    def __init__(
        self, memory: Memory, brake: Brake, *, condemned: set[LeaseId], waits: ManifestWaits, clock: Clock
    ) -> None:
        self._memory = memory
        self._brake = brake
        self._waits = waits
        self._condemned = condemned
        self._clock = clock
        self._written: frozenset[tuple[LeaseId, StandingWord]] = frozenset()
        self._turn = asyncio.Lock()
        self._recalled = False
        self._not_before = 0.0
        self._not_written_before = 0.0

    async def recall(self) -> None:
        """Before anything is looked at. What cannot be read now is read later, and nothing is written before that."""
        async with self._turn:
            await self._recall()

    async def _recall(self) -> None:
        now = self._clock.monotonic()
        if self._recalled or now < self._not_before:
            return
        loaded = await self._memory.load()
        self._recalled, self._not_before = loaded is not None, now + _AGAIN_S
        found = tuple(loaded or ())
        for part in (self._brake, self._waits):
            part.restore(found, now=now, wall=self._clock.now())
        self._condemned.update(each.lease for each in found if each.word is StandingWord.CONDEMNED)
        self._written = frozenset((each.lease, each.word) for each in found)

    async def remember(self, *, insist: bool = False) -> bool:
        """Whether everything is written down; what cannot be written is tried again at a look ten seconds later, or at
        once where somebody waits for the answer.
        """
        async with self._turn:  # an older picture must not be written over a newer one
            await self._recall()
            rests = not insist and self._clock.monotonic() < self._not_written_before
            return self._recalled and not rests and await self._remember()

    async def _remember(self) -> bool:
        standing = self._standing()
        said = frozenset((each.lease, each.word) for each in standing)
        if said == self._written:
            return True
        if written := await self._memory.save(standing):
            self._written = said
        else:
            self._not_written_before = self._clock.monotonic() + _AGAIN_S
        return written

    def _standing(self) -> list[Standing]:
        now, wall = self._clock.monotonic(), self._clock.now()
        words = [Standing(lease, StandingWord.CONDEMNED, 0.0) for lease in self._condemned]
        return sorted([*words, *self._brake.standing(now=now, wall=wall), *self._waits.standing(now=now, wall=wall)])
