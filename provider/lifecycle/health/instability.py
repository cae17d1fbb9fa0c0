"""How long has a tenant's application been seen not to run? (kubernetes-objects.md §4.4)

The Go provider closes a lease after so many unhealthy checks, whatever made them so. Here only time counts in which we
saw the cluster and all the trouble was the application's own: a node, a network or an API server that is away is none
of the tenant's doing. Without a limit (the default, as newer Go providers have it) nothing is ever closed.
"""

from __future__ import annotations

from lease.ids import LeaseId

__all__ = ["Unstable"]

_LONGEST_GAP_S = 60.0
"""Between two looks we believe in no more than this: what happened while nobody looked is not known."""


class Unstable:
    """Seconds of seen instability, a lease. Forgetting them only gives the tenant more time."""

    def __init__(self, limit_s: float) -> None:
        self._limit = limit_s
        self._seen: dict[LeaseId, tuple[float, float]] = {}

    @property
    def look_again_s(self) -> float | None:
        """How soon an unstable lease wants another look, None when nothing is counted."""
        return min(_LONGEST_GAP_S, self._limit) / 2 if self._limit else None

    def saw(self, lease: LeaseId, *, unstable: bool, now: float) -> float:
        """One look that saw everything; the seconds counted so far. `now` is monotonic."""
        if not unstable or not self._limit:
            self._seen.pop(lease, None)
            return 0.0
        total, last = self._seen.get(lease, (0.0, now))
        total += min(now - last, _LONGEST_GAP_S)
        self._seen[lease] = (total, now)
        return total

    def saw_nothing(self, lease: LeaseId, *, now: float) -> None:
        """A look that failed: the time since the one before does not count."""
        if lease in self._seen:
            self._seen[lease] = (self._seen[lease][0], now)

    def over(self, lease: LeaseId) -> bool:
        return bool(self._limit) and lease in self._seen and self._seen[lease][0] >= self._limit

    def forget(self, lease: LeaseId) -> None:
        self._seen.pop(lease, None)
