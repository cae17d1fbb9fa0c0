"""A brake on removals: many leases at once that end without a word of the chain's events are not removed but shown.

Each of them is proven closed by two answers of a node. But a node that lies for all of them, or an error of ours, would
cost every tenant at once; the events come another way. What ended while we were down has no event either: a few are
removed, more wait for an operator's word (field problem G1).
"""

from __future__ import annotations

from collections.abc import Iterable

from lease.ids import LeaseId
from provider.lifecycle.directives import Standing, StandingWord

__all__ = ["Brake"]

_ALWAYS = 3
"""So many may always go: on a small provider one lease is already a large share."""


class Brake:
    """`leases` and `percent` (of all known) are the most that may be removed unannounced within `window_s` seconds."""

    def __init__(self, *, leases: int, percent: float, window_s: float) -> None:
        self._leases = leases
        self._percent = percent
        self._window = window_s
        self._announced: dict[LeaseId, float] = {}
        self._let: dict[LeaseId, float] = {}
        self._going: set[LeaseId] = set()
        self._held: set[LeaseId] = set()
        self._known = 0

    @property
    def held(self) -> frozenset[LeaseId]:
        """Leases that are proven closed and not removed; empty when the brake is off."""
        return frozenset(self._held)

    def announced(self, lease: LeaseId, *, now: float) -> None:
        """An event of the chain says that the lease was closed. `now` is monotonic."""
        self._announced[lease] = now
        self._held.discard(lease)

    def knows(self, leases: int) -> None:
        """How many leases this provider has, what the share is of."""
        self._known = leases

    def may_remove(self, lease: LeaseId, *, now: float) -> bool:
        """Once allowed, a removal goes on to its end."""
        self._let = {each: at for each, at in self._let.items() if now - at < self._window}
        if lease in self._let:
            self._going.add(lease)
        if lease in self._announced or lease in self._going:
            return True
        if self._held or len(self._let) + 1 > self._most():
            self._held.add(lease)
            return False
        self._let[lease] = now
        self._going.add(lease)
        return True

    def why(self) -> str:
        return (
            f"teardown brake: {len(self._let)} leases were removed in {self._window:g} s without an event of the chain "
            f"and {len(self._held)} more are said to be closed; these stay until an operator releases the brake"
        )

    def release(self, *, now: float) -> tuple[LeaseId, ...]:
        """An operator's word: what is held may go, and only that. Returns it."""
        released = tuple(sorted(self._held))
        self._held.clear()
        for lease in released:
            self._announced[lease] = now
        return released

    def not_ended(self, lease: LeaseId, *, now: float) -> None:
        """The chain calls it alive after all. A word that it contradicts after the window counts no more; before, the
        node may only be behind.
        """
        self._held.discard(lease)
        self._going.discard(lease)
        if now - self._announced.get(lease, now) >= self._window:
            del self._announced[lease]

    def standing(self, *, now: float, wall: float) -> list[Standing]:
        """What a restart must know; `now` is monotonic, `wall` the same moment in Unix seconds."""
        shift = wall - now
        kept = {lease: at for lease, at in self._let.items() if now - at < self._window or lease in self._going}
        return [
            *(Standing(lease, StandingWord.HELD, 0.0) for lease in self._held),
            *(Standing(lease, StandingWord.LET, at + shift) for lease, at in kept.items()),
            *(Standing(lease, StandingWord.MAY_GO, at + shift) for lease, at in self._announced.items()),
        ]

    def restore(self, standing: Iterable[Standing], *, now: float, wall: float) -> None:
        """What was so before a restart. A clock that was put back makes nothing last longer than the window."""
        for each in standing:
            at = min(now, each.at - (wall - now))
            match each.word:
                case StandingWord.HELD:
                    self._held.add(each.lease)
                case StandingWord.LET:
                    self._let[each.lease] = at
                    if now - at >= self._window:
                        self._going.add(each.lease)  # kept for so long only because its removal went on
                case StandingWord.MAY_GO:
                    self._announced[each.lease] = at

    def done(self, lease: LeaseId) -> None:
        """Nothing is left of it; that it was let go still counts."""
        self._announced.pop(lease, None)
        self._going.discard(lease)
        self._held.discard(lease)

    def _most(self) -> int:
        """How many may go in a window: neither more than the number nor more than the share."""
        return max(_ALWAYS, min(self._leases, int(self._percent * self._known / 100)))
