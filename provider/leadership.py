"""Leadership: which of several processes of one provider works, decided by a Kubernetes Lease, and its fences.

A leader renews the Lease. Another process takes it over when it has not changed for its whole duration, measured by the
process's own clock from the moment at which it saw it first. The leader's term ends earlier: the duration after it
*began* its last renewal. Clocks of two machines are never compared (decision 40).

A term that is over cannot be taken back, also by a process that was suspended and wakes: each effect asks first.
Transactions have a fence of their own, since they may be on their way: the Lease names the last height that a
transaction of this term may be valid for, and the next leader sends nothing before the chain is past it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from provider.errors import ClusterError, Conflict, ProviderError
from provider.metrics import LEADER
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import KUBE_LEASE
from provider.repeats import Repeats

__all__ = ["Leadership", "TermOver", "led"]

_HEIGHT = "lessor.akash.network/last-height"
_DIGITS = 18
_RENEWALS = 5.0
"""A term is renewed so often in its duration, so that one renewal may fail."""
_SAFE = 0.8
"""The part of the duration after which a term is over: what was begun just before its end ends before the next."""
_log = structlog.get_logger(__name__)


class TermOver(ProviderError):
    """This process led and does no longer. It ends, and its supervisor starts it again as a candidate."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The Lease as it was read, and the monotonic second at which this version of it was first seen."""

    version: str
    at: float


class Leadership:
    """One process's part. `span`: for how many blocks a transaction is valid. `note_term` hears the monotonic second at
    which the term ends, after each renewal.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock,
        seconds: float,
        span: int,
        note_term: Callable[[float], None] = lambda until: None,
    ) -> None:
        self._cluster, self._name, self._namespace, self._identity = cluster, name, namespace, identity
        self._clock, self._seconds, self._span, self._note_term = clock, seconds, span, note_term
        self._seen: _Seen | None = None
        self._until = 0.0
        self._version = ""
        self._held = 0
        self._last_height = 0
        self._foreign_height = 0
        self._head: Callable[[], Awaitable[int]] | None = None
        self._repeats = Repeats(clock.monotonic)

    def ask_head(self, head: Callable[[], Awaitable[int]]) -> None:
        """Take heights from `head` from now on. Without it nothing can be sent."""
        self._head = head

    @property
    def term_problem(self) -> str:
        """Why this process may have no effect on anything; empty while its term lasts."""
        if self._clock.monotonic() < self._until:
            return ""
        return f"{self._identity} does not hold the Lease {self._namespace}/{self._name}: its term is over"

    def height_problem(self, head: int) -> str:
        """Why a transaction may not be sent when the chain is at `head`; empty when it may."""
        if problem := self.term_problem:
            return problem
        if head <= self._foreign_height:
            return f"transactions of the leader before may be in a block up to height {self._foreign_height}"
        return "" if head < self._last_height else f"this term names no height above {head} yet"

    @property
    def term(self) -> int:
        """The number of the term, 0 before there is one. Workers on other machines compare it with the Lease's."""
        return self._held

    @property
    def last_height(self) -> int:
        """The last height that a transaction may be valid for."""
        return self._last_height

    async def acquire(self) -> None:
        """Wait until this process leads."""
        while not await self._try():
            await self._clock.sleep(self._seconds / _RENEWALS)
        LEADER.set(1)
        _log.info("leader.begins", lease=self._name, identity=self._identity, term=self._held)

    async def hold(self) -> None:
        """Renew until cancelled. Raises `TermOver` at the first renewal after the end of the term, which nothing renews
        then: the fences have held everything back since.
        """
        while True:
            await self._clock.sleep(self._seconds / _RENEWALS)
            renewed = not self.term_problem and await self._try()
            if self.term_problem or (not renewed and self._held == 0):
                LEADER.set(0)
                raise TermOver(f"{self.term_problem or 'another process leads'}; start it again as a candidate")

    async def release(self) -> None:
        """Give the Lease back, so that the next leader waits for nothing but this term's transactions."""
        if self.term_problem:
            return
        self._until = 0.0
        LEADER.set(0)
        if not self._noted(0.0):
            return  # the engine may work until the term ends by itself, so the Lease is not free before
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(self._seconds / _RENEWALS):
                free = {"metadata": {"resourceVersion": self._version}, "spec": {"holderIdentity": ""}}
                await self._cluster.patch(KUBE_LEASE, self._name, free, namespace=self._namespace)

    async def _try(self) -> bool:
        """Renew or take over if possible. An API server that does not answer is no reason to give a term up early."""
        try:
            async with asyncio.timeout(self._seconds / _RENEWALS):
                return await self._renew_or_take()
        except Conflict:
            return False
        except (ClusterError, TimeoutError) as error:
            problem = str(error) or "no answer"
            if self._repeats.is_news("lease", problem):
                _log.warning("leader.lease_unreachable", lease=self._name, problem=problem)
            return False

    async def _renew_or_take(self) -> bool:
        found = await self._cluster.get(KUBE_LEASE, self._name, namespace=self._namespace) or await self._create()
        began, height = self._clock.monotonic(), await self._next_height()
        spec, meta = found.get("spec") or {}, found["metadata"]
        if self._held and spec.get("holderIdentity") != self._identity:
            self._held, self._until = 0, 0.0
            return False
        if self._held:
            return await self._write(meta["resourceVersion"], self._held, height, began)
        if not self._may_take(spec, meta["resourceVersion"]):
            return False
        self._foreign_height = _promised_height(meta)
        return await self._write(meta["resourceVersion"], int(spec.get("leaseTransitions") or 0) + 1, height, began)

    async def _create(self) -> dict[str, Any]:
        """An empty Lease, which is taken as one that nobody holds. Another process may have made it meanwhile."""
        meta = {"name": self._name, "namespace": self._namespace}
        return await self._cluster.apply({"apiVersion": KUBE_LEASE.api_version, "kind": "Lease", "metadata": meta})

    def _may_take(self, spec: dict[str, Any], version: str) -> bool:
        """Whether nobody holds the Lease, or nobody has renewed it for its duration."""
        now = self._clock.monotonic()
        if self._seen is None or self._seen.version != version:
            self._seen = _Seen(version, now)
        duration = max(float(spec.get("leaseDurationSeconds") or 0), self._seconds)
        return not spec.get("holderIdentity") or now - self._seen.at >= duration

    async def _next_height(self) -> int:
        """The height that this renewal may promise: never below an earlier one, nor above what the chain says."""
        if self._head is None or not self._held:
            return self._last_height
        try:
            return max(self._last_height, await self._head() + self._span)
        except ProviderError:
            return self._last_height

    async def _write(self, version: str, term: int, height: int, began: float) -> bool:
        """Write the Lease, if it still is the version that was read. Raises `Conflict` if it is not."""
        marks = {_HEIGHT: str(max(height, self._foreign_height))}
        spec = {"holderIdentity": self._identity, "leaseTransitions": term, "renewTime": self._stamp()}
        changes = {
            "metadata": {"annotations": marks, "resourceVersion": version},
            "spec": spec | {"leaseDurationSeconds": round(self._seconds)},
        }
        stored = await self._cluster.patch(KUBE_LEASE, self._name, changes, namespace=self._namespace)
        self._version = str(stored["metadata"]["resourceVersion"])
        self._held, self._last_height = term, height
        until = began + self._seconds * _SAFE
        if not self._noted(until):
            return False
        self._until = until
        self._repeats.ended("lease")
        return True

    def _noted(self, until: float) -> bool:
        """Whether the engine of this machine knows the end of the term. Without that its operations would be held back
        by the end of the term before, so this process does not call itself the leader either.
        """
        try:
            self._note_term(until)
        except OSError as error:
            problem = f"the end of the term cannot be written to {error.filename or 'its file'}: {error.strerror}"
            if self._repeats.is_news("term", problem):
                remedy = "free some space on the disk of AP_HOME; without it the term ends"
                _log.error("leader.term_not_written", lease=self._name, problem=problem, remedy=remedy)
            return False
        self._repeats.ended("term")
        return True

    def _stamp(self) -> str:
        """The time of this renewal, for people and tools; no process decides by it."""
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _promised_height(meta: dict[str, Any]) -> int:
    """The last height that a transaction of the leader before may be valid for. Raises `ClusterError` for what is no
    height, since nothing says then when the next leader may send.
    """
    text = str((meta.get("annotations") or {}).get(_HEIGHT) or 0)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        problem = f"the annotation {_HEIGHT} of the Lease is {text[:40]!r}, no height: delete the Lease"
        raise ClusterError("", problem)
    return int(text)


@asynccontextmanager
async def led(leadership: Leadership) -> AsyncIterator[asyncio.Task[None]]:
    """Wait until this process leads; the task holds the term and ends with `TermOver`. The Lease is given back at the
    end.
    """
    await leadership.acquire()
    holding = asyncio.create_task(leadership.hold(), name="leader")
    try:
        yield holding
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await leadership.release()
