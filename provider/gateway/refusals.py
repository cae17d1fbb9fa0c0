"""Refusals at the edge: counted each, logged at most once a minute for each reason, so that a flood fills no disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog

from provider.metrics import GATEWAY_REFUSED

__all__ = ["Refusals"]

_PAUSE_S = 60.0
_log = structlog.get_logger("gateway")


class Refusals:
    """`count` is called for each refusal. `now`: monotonic seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._logged_at: dict[str, float] = {}
        self._since: Counter[str] = Counter()
        self.total: Counter[str] = Counter()

    def count(self, reason: str, *, peer: str) -> None:
        """One refusal for `reason`, a fixed text. The log line names the newest peer and the number since the last."""
        self.total[reason] += 1
        self._since[reason] += 1
        GATEWAY_REFUSED.labels(reason).inc()
        now = self._now()
        if reason in self._logged_at and now - self._logged_at[reason] < _PAUSE_S:
            return
        self._logged_at[reason] = now
        _log.warning("gateway.refused", reason=reason, newest_peer=peer, refusals=self._since.pop(reason))
