"""How old the inventory may be: watches that say nothing look the same whether nothing happens or nobody answers.

A bid on an old inventory sells capacity that may be gone, and a lease that is won meanwhile cannot be served. So the
API server is asked a small question often, and without an answer for a minute no bid is made.
"""

from __future__ import annotations

import structlog

from provider.errors import ClusterError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import NAMESPACE

__all__ = ["Freshness"]

_ASK_S = 15.0
_OLD_S = 60.0
_log = structlog.get_logger(__name__)


class Freshness:
    """`namespace`: the one that is read to ask. `run` must run as a task."""

    def __init__(self, cluster: Cluster, *, namespace: str, clock: Clock) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._clock = clock
        self._answered = clock.monotonic()
        self._error = ""
        self._failing: dict[str, tuple[float, str]] = {}
        self._logged = False

    @property
    def seconds(self) -> float:
        """Since the API server answered last."""
        return self._clock.monotonic() - self._answered

    @property
    def problem(self) -> str:
        """Why the inventory is too old to bid; empty while it is not."""
        if self.seconds > _OLD_S:
            return f"the API server has not answered for more than {_OLD_S:g} s: {self._error or 'no answer'}"
        now = self._clock.monotonic()
        old = sorted((kind, error) for kind, (since, error) in self._failing.items() if now - since > _OLD_S)
        return f"{old[0][0]} could not be read for more than {_OLD_S:g} s: {old[0][1]}" if old else ""

    def read(self, kind: str) -> None:
        """All objects of a kind were read."""
        self._failing.pop(kind, None)

    def failed(self, kind: str, error: str) -> None:
        """The objects of a kind could not be read."""
        since, _ = self._failing.get(kind, (self._clock.monotonic(), ""))
        self._failing[kind] = (since, error)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            try:
                await self._cluster.get(NAMESPACE, self._namespace)
                self._answered, self._error = self._clock.monotonic(), ""
            except ClusterError as error:
                self._error = str(error)
            self._log_change()
            await self._clock.sleep(_ASK_S)

    def _log_change(self) -> None:
        if bool(problem := self.problem) == self._logged:
            return
        self._logged = bool(problem)
        if problem:
            _log.error("inventory.out_of_date", problem=problem, consequence="no bids are made")
        else:
            _log.info("inventory.up_to_date")
