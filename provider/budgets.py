"""Budgets of work: so many pieces at once, and so many a second afterwards."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

__all__ = ["Budget", "PeerBudgets"]

_PEERS = 10_000


class Budget:
    """A token bucket: `burst` pieces at once, refilled by `rate` pieces a second of `now` (monotonic seconds)."""

    __slots__ = ("_at", "_burst", "_left", "_now", "_rate")

    def __init__(self, *, rate: float, burst: float, now: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._left = burst
        self._at = now()

    def take(self) -> bool:
        """Whether one more piece of work is allowed; it is then used up."""
        self._refill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _refill(self) -> None:
        now = self._now()
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now


class PeerBudgets:
    """One budget for each peer. Of more than ten thousand peers, those that asked longest ago are forgotten."""

    def __init__(self, *, rate: float, burst: float, now: Callable[[], float]) -> None:
        self._make: Callable[[], Budget] = partial(Budget, rate=rate, burst=burst, now=now)
        self._budgets: OrderedDict[str, Budget] = OrderedDict()

    def take(self, peer: str) -> bool:
        """Whether `peer` may cause one more piece of work."""
        budget = self._budgets.pop(peer, None) or self._make()
        self._budgets[peer] = budget
        if len(self._budgets) > _PEERS:
            self._budgets.popitem(last=False)
        return budget.take()
