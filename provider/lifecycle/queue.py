"""The queue of checks: a lease is in it at most once and is never checked twice at a time."""

from __future__ import annotations

import asyncio

from lease.ids import LeaseId
from provider.protocols import Clock
from provider.waits import wait_for_event

__all__ = ["LeaseQueue"]


class LeaseQueue:
    """Leases by when they are due (`Clock.monotonic`). Adding a lease that waits only brings its check forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[LeaseId, float] = {}
        self._busy: set[LeaseId] = set()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due) + len(self._busy)

    @property
    def busy(self) -> frozenset[LeaseId]:
        """Leases that are being checked."""
        return frozenset(self._busy)

    def add(self, lease: LeaseId, *, after: float = 0.0) -> None:
        """Make the lease due in `after` seconds, or earlier if it already is. A lease that is being checked is checked
        once more.
        """
        due = self._clock.monotonic() + after
        if due < self._due.get(lease, float("inf")):
            self._due[lease] = due
            self._changed.set()

    def drop(self, lease: LeaseId) -> None:
        """Drop the check of a lease that has ended."""
        self._due.pop(lease, None)

    def done(self, lease: LeaseId) -> None:
        self._busy.discard(lease)
        self._changed.set()

    async def take(self) -> LeaseId:
        """Wait for the lease that has been due longest and return it. The queue does not return it again before
        `done`.
        """
        while True:
            self._changed.clear()
            lease, wait = self._next()
            if lease is not None:
                del self._due[lease]
                self._busy.add(lease)
                return lease
            await wait_for_event(self._changed, clock=self._clock, seconds=wait)

    def _next(self) -> tuple[LeaseId | None, float | None]:
        """(the due one, None), (None, seconds until one is) or (None, None) when only a change can help."""
        waiting = [(due, lease) for lease, due in self._due.items() if lease not in self._busy]
        if not waiting:
            return None, None
        due, lease = min(waiting)
        left = due - self._clock.monotonic()
        return (lease, None) if left <= 0 else (None, left)
