"""The leader's term as another machine sees it: the machine reads the leader's Kubernetes Lease itself.

Clocks of two machines are never compared. A version of the Lease that appears between two reads was written after the
first of them began, so that nobody takes the Lease over before its duration has passed since then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from provider.errors import ClusterError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import KUBE_LEASE
from provider.repeats import Repeats

__all__ = ["FollowedTerm"]

_READS = 5.0
"""Reads in a duration, as many as the leader renews."""
_SAFE = 0.8
_log = structlog.get_logger("lessor")


class FollowedTerm:
    """`seconds`: the duration of the Lease by the settings; the Lease's own counts. `note` hears the monotonic second
    at which the term ends. `idle` returns when nothing runs for an earlier term any more.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        namespace: str,
        clock: Clock,
        seconds: float,
        note: Callable[[float], None],
        idle: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster, self._name, self._namespace, self._clock = cluster, name, namespace, clock
        self._seconds, self._note, self._idle = seconds, note, idle
        self._version, self._read_at, self._until = "", 0.0, 0.0
        self._number = 0
        self._repeats = Repeats(clock.monotonic)

    def problem(self, term: int) -> str:
        """Why nothing may be begun for the leader of `term` now; empty when it may."""
        if term != self._number:
            return f"term {term} is not the one that leads ({self._number or 'none is known'})"
        return "" if self._clock.monotonic() < self._until else f"term {term} was not seen to be renewed"

    async def follow(self) -> None:
        """Read the Lease until cancelled."""
        self._note(0.0)
        while True:
            try:
                async with asyncio.timeout(self._seconds / _READS):
                    began = self._clock.monotonic()
                    found = await self._cluster.get(KUBE_LEASE, self._name, namespace=self._namespace)
                await self._saw(found, began)
                self._repeats.ended("lease")
            except (ClusterError, TimeoutError) as error:
                if self._repeats.is_news("lease", str(error) or "no answer"):
                    _log.warning("leader.lease_unreachable", lease=self._name, problem=str(error) or "no answer")
            await self._clock.sleep(self._seconds / _READS)

    async def _saw(self, found: dict[str, Any] | None, began: float) -> None:
        spec = (found or {}).get("spec") or {}
        number = int(spec.get("leaseTransitions") or 0) if spec.get("holderIdentity") else 0
        version = str(found["metadata"]["resourceVersion"]) if found else ""
        if number != self._number:
            await self._change(number)
        elif number and version != self._version:
            self._until = self._read_at + float(spec.get("leaseDurationSeconds") or self._seconds) * _SAFE
            self._note(self._until)
        self._version, self._read_at = version, began

    async def _change(self, number: int) -> None:
        """Another term: interrupt what runs for the one before. A renewal that is seen begins the new one."""
        self._number, self._until = 0, 0.0
        self._note(0.0)
        await self._idle()
        self._number = number
        _log.info("leader.followed", lease=self._name, term=number)
