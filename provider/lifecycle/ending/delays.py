"""Ends that do not come to an end: room that is not sold again, and nobody looks (field problem H3)."""

from __future__ import annotations

import structlog

from lease.ids import LeaseId
from provider.lifecycle.state import Outcome, Phase

__all__ = ["SlowEnds"]

_LIMIT_S = 600.0
_log = structlog.get_logger(__name__)


class SlowEnds:
    """Says once of each lease that it has been closing for ten minutes, and what it waits for."""

    def __init__(self) -> None:
        self._since: dict[LeaseId, float] = {}
        self._told: set[LeaseId] = set()

    def saw(self, lease: LeaseId, outcome: Outcome, *, now: float) -> None:
        """`now` is monotonic, seconds."""
        if outcome.phase is not Phase.CLOSING:
            self._since.pop(lease, None)
            self._told.discard(lease)
            return
        since = self._since.setdefault(lease, now)
        if now - since >= _LIMIT_S and lease not in self._told:
            self._told.add(lease)
            _log.error("lifecycle.slow_end", lease=str(lease), minutes=round((now - since) / 60), reason=outcome.reason)
