"""The directives of all leases, written to the store whenever they differ from what was written last."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from lease.ids import LeaseId
from provider.lifecycle.directives import Directive, DirectiveKind, DirectiveStore
from provider.lifecycle.ending.brake import Brake
from provider.lifecycle.lease_memory import Memories
from provider.protocols import Clock

__all__ = ["RestartRecord"]

_AGAIN_S = 10.0
"""A store that does not answer is not asked again at every check of a lease."""


class RestartRecord:
    """Reads the directives once at the start into `memories` and `brake`, and writes them back when they change."""

    def __init__(self, store: DirectiveStore, memories: Memories, brake: Brake, *, clock: Clock) -> None:
        self._store = store
        self._memories = memories
        self._brake = brake
        self._clock = clock
        self._written: dict[LeaseId, set[DirectiveKind]] = {}
        self._turn = asyncio.Lock()
        self._restored = False
        self._unsaved = False
        self._not_before = 0.0
        self._not_written_before = 0.0

    async def restore(self) -> None:
        """Read the directives, before any lease is checked. When the store does not answer they are read later, and
        nothing is written before that.
        """
        async with self._turn:
            await self._restore()

    async def write(self, lease: LeaseId | None = None) -> bool:
        """Write all directives when those of `lease` or of the brake's window have changed; without `lease` when any
        have. Returns whether everything is written.

        A failed write is tried again at a check ten seconds later, and at once without `lease`: then somebody waits
        for the answer.
        """
        async with self._turn:  # an older state must not be written over a newer one
            await self._restore()
            rests = lease is not None and self._clock.monotonic() < self._not_written_before
            if not self._restored or rests:
                return False
            return not self._changed(lease) or await self._write()

    async def write_again(self) -> bool:
        """Write all directives to a store that is an empty one now. Returns whether they are written."""
        self._unsaved = self._restored = True
        return await self.write()

    async def _restore(self) -> None:
        now = self._clock.monotonic()
        if self._restored or now < self._not_before:
            return
        loaded = await self._store.load()
        self._restored, self._not_before = loaded is not None, now + _AGAIN_S
        found = tuple(loaded or ())
        for directive in found:
            self._take(directive, now=now, wall=self._clock.now())
        self._written = _by_lease(found)

    def _take(self, directive: Directive, *, now: float, wall: float) -> None:
        """A clock that was put back makes nothing last longer than its window."""
        lease, at = directive.lease, min(now, directive.at - (wall - now))
        # a removal that is older than the window is kept only because it was still going on
        removing = now - at >= self._brake.window_s
        if directive.kind is DirectiveKind.LET:
            self._brake.restore(lease, at=at)
        if directive.kind is not DirectiveKind.LET or removing:
            self._memories[lease].restore(directive.kind, at=at, removing=removing)

    def _changed(self, lease: LeaseId | None) -> bool:
        """Whether the directives differ from those written. With `lease` only that lease and the brake's window are
        compared: a check of one lease must not cost as much as there are leases.
        """
        now = self._clock.monotonic()
        let = self._brake.let_within(now=now).keys()
        leases = self._memories.keys() | self._written.keys() | let
        if lease is not None:
            counted = {each for each, kinds in self._written.items() if DirectiveKind.LET in kinds}
            leases = {lease, *let, *counted}
        return self._unsaved or any(self._kinds(each, now, let) != self._written.get(each) for each in leases)

    def _kinds(self, lease: LeaseId, now: float, let: Collection[LeaseId]) -> set[DirectiveKind] | None:
        """The kinds of the lease's directives, None when it has none."""
        memory = self._memories.get(lease)
        own = memory.directives(lease, now=now, wall=now) if memory is not None else []
        kinds = {each.kind for each in own} | ({DirectiveKind.LET} if lease in let else set())
        return kinds or None

    async def _write(self) -> bool:
        directives = self._directives()
        written = await self._store.save(directives)
        self._unsaved = not written
        if written:
            self._written = _by_lease(directives)
        else:
            self._not_written_before = self._clock.monotonic() + _AGAIN_S
        return written

    def _directives(self) -> list[Directive]:
        """Of all leases, sorted; a lease has at most one of each kind."""
        now, wall = self._clock.monotonic(), self._clock.now()
        let = self._brake.let_within(now=now)
        found = [Directive(lease, DirectiveKind.LET, at + wall - now) for lease, at in let.items()]
        for lease, memory in self._memories.items():
            own = memory.directives(lease, now=now, wall=wall)
            found += [each for each in own if each.kind is not DirectiveKind.LET or lease not in let]
        return sorted(found)


def _by_lease(directives: Iterable[Directive]) -> dict[LeaseId, set[DirectiveKind]]:
    found: dict[LeaseId, set[DirectiveKind]] = {}
    for each in directives:
        found.setdefault(each.lease, set()).add(each.kind)
    return found
