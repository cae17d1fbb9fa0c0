"""What one tenant may take of the REST gateway: requests a second, and connections at one time.

The tenant is known only when a request's credentials are checked, so a connection counts for every tenant whose
credentials it has carried: a web console sends the requests of many over one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from provider.budgets import PeerBudgets
from provider.gateway.errors import RequestError
from provider.gateway.refusals import Refusals

__all__ = ["TenantLimits", "TenantRates"]

_RETRY_S = 1


@dataclass(frozen=True, slots=True)
class TenantRates:
    """Requests at once, and a second after that; connections at one time."""

    requests_at_once: int = 200
    requests_per_s: float = 50.0
    connections: int = 384


class _Connection(Protocol):
    def when_lost(self, call: Callable[[], None]) -> None: ...


class TenantLimits:
    """`take` is called with each request of a known tenant."""

    def __init__(self, rates: TenantRates, refusals: Refusals, *, now: Callable[[], float] = time.monotonic) -> None:
        self._refusals = refusals
        self._now = now
        self.limit(rates)
        self._open: Counter[str] = Counter()
        self._carried: dict[int, set[str]] = {}

    def limit(self, rates: TenantRates) -> None:
        """Take other rates from now on; every tenant may send the requests of the first seconds again."""
        self._rates = rates
        self._budgets = PeerBudgets(rate=rates.requests_per_s, burst=rates.requests_at_once, now=self._now)

    def take(self, owner: str, connection: _Connection | None) -> None:
        """Count a request. Raises `RequestError` 429 above a limit."""
        if connection is not None:
            self._count(owner, connection)
        if not self._budgets.take(owner):
            self._refuse("requests of one tenant", owner)

    def _count(self, owner: str, connection: _Connection) -> None:
        key = id(connection)
        carried = self._carried.get(key)
        if carried is None:
            carried = self._carried[key] = set()
            connection.when_lost(lambda: self._lost(key))
        if owner in carried:
            return
        if self._open[owner] >= self._rates.connections:
            self._refuse("connections of one tenant", owner)
        carried.add(owner)
        self._open[owner] += 1

    def _lost(self, key: int) -> None:
        for owner in self._carried.pop(key):
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]

    def _refuse(self, reason: str, owner: str) -> None:
        self._refusals.count(reason, peer=owner)
        raise RequestError(429, f"too many {reason}; try again later", retry_after_s=_RETRY_S)
