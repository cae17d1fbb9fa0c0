"""`BidScreening`: whether this provider would bid on a group, and for how much. The decision is the market's own, for
any caller (gateway.md §5, where the Go provider answers UNIMPLEMENTED).

The response shows no more than a bid, or its absence, would show: reasons are summed over all nodes and name none.

Nobody pays for the call, so the work of each is bounded: a group is counted before it is converted, it is converted in
a thread, and one caller takes neither every turn nor more than its rate.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
import structlog
from akash.market.v1beta5 import types_pb2 as market_pb
from akash.provider.v1 import service_pb2

from lease.hostnames import is_wildcard
from lease.kubernetes_names import is_subdomain
from provider.budgets import PeerBudgets
from provider.chain import codec
from provider.chain.group_size import oversize
from provider.claims.foreign_routes import ForeignRoutes, foreign_routes
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    HostnameRules,
    check_hostnames,
    host_claims,
)
from provider.errors import ProviderError
from provider.gateway.answer_cache import CachedAnswer
from provider.gateway.verdict import Screen, Verdict
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import PROVIDER_HOST

__all__ = ["BidScreening", "BlockedHostnames", "screened_hostnames"]

BlockedHostnames: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""The reasons why hostnames are not available, one per hostname; empty when all are available."""

_log = structlog.get_logger(__name__)
_MAX_REQUESTS = 8
"""Requests at one time; each may run a price script."""
_MAX_OF_PEER = 4
_RATE, _BURST = 2.0, 30.0
"""Requests of one peer: a second in the long run, and at once."""
_MAX_HOSTNAMES = 100
_MAX_REASON = 400
_HOSTNAMES_S = 5.0
"""How long the list of hostnames in use is kept."""
_NO_OWNER = ""
"""The caller is not authenticated, so a hostname of his own counts as in use too."""


class BidScreening:
    """`hostnames` checks the hostnames that the manifest would request; without it they are not checked. `peer_of`
    returns what the limits of a caller count by.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        hostnames: BlockedHostnames | None = None,
        peer_of: Callable[[str], str] = str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen = screen
        self._hostnames = hostnames
        self._peer_of = peer_of
        self._budgets = PeerBudgets(rate=_RATE, burst=_BURST, now=now)
        self._running: Counter[str] = Counter()

    async def answer(self, request: Any, context: Any) -> Any:
        """`BidScreeningRequest` → `BidScreeningResponse`. Aborts with INVALID_ARGUMENT without a valid group,
        RESOURCE_EXHAUSTED for too many requests at once or from one peer, UNAVAILABLE when the chain or the cluster
        does not answer.
        """
        peer = self._peer_of(context.peer())
        await self._admit(peer, context)
        self._running[peer] += 1
        try:
            return await self._answer(request, context)
        except ProviderError as error:
            _log.warning("gateway.screening_failed", problem=str(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this provider cannot answer now; try again")
            raise AssertionError("aborted") from error
        finally:
            self._running[peer] -= 1
            self._running += Counter()  # forgets the peers at 0

    async def _admit(self, peer: str, context: Any) -> None:
        if self._running.total() >= _MAX_REQUESTS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests at once; try again")
        if self._running[peer] >= _MAX_OF_PEER or not self._budgets.take(peer):
            text = "too many requests from this address; try again"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    async def _answer(self, request: Any, context: Any) -> Any:
        if problem := _problem_of(request):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem[:_MAX_REASON])
        if reason := oversize(request.group_spec):
            return service_pb2.BidScreeningResponse(passed=False, reasons=_short((reason,)))
        try:
            spec = await asyncio.to_thread(codec.group_from_pb, request.group_spec)
        except (ValueError, ArithmeticError) as error:
            text = f"group_spec: {error}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text[:_MAX_REASON])
            raise AssertionError("aborted") from error
        found = await self._screen(spec)
        names = await self._hostnames(list(request.hostnames)) if self._hostnames is not None else ()
        return _response(found, names)


def _problem_of(request: Any) -> str:
    if len(request.hostnames) > _MAX_HOSTNAMES:
        return f"more than {_MAX_HOSTNAMES} hostnames"
    return "" if request.HasField("group_spec") else "group_spec is missing"


def _response(found: Verdict, names: Sequence[str]) -> Any:
    if found.price is None:
        return service_pb2.BidScreeningResponse(passed=False, reasons=_short((*found.reasons, *names)))
    offers = [
        market_pb.ResourceOffer(resources=codec.resources_to_pb(unit.resources), count=unit.count)
        for unit in found.offer
    ]
    return service_pb2.BidScreeningResponse(
        passed=not names, reasons=_short(names), resource_offers=offers, price=codec.price_to_pb(found.price)
    )


def _short(reasons: Sequence[str]) -> list[str]:
    return [reason[:_MAX_REASON] for reason in reasons[:_MAX_HOSTNAMES]]


def screened_hostnames(cluster: Cluster, clock: Clock, *, namespace: str, rules: HostnameRules) -> BlockedHostnames:
    """A check of hostnames as a manifest with them would meet it. It reads the claims in `namespace` and the routes of
    the cluster at most every few seconds, however many ask, and raises `ClusterError`.
    """

    async def read() -> tuple[dict[str, HostnameClaim], ForeignRoutes]:
        claims = host_claims(await cluster.list(PROVIDER_HOST, namespace=namespace))
        return claims, await foreign_routes(cluster)

    kept = CachedAnswer(read, clock, seconds=_HOSTNAMES_S)

    async def check(hostnames: Sequence[str]) -> Sequence[str]:
        if not hostnames:
            return ()
        claims, routes = await kept.get()
        problems = (_problem(name, claims, rules, routes) for name in dict.fromkeys(map(str.lower, hostnames)))
        return tuple(problem for problem in problems if problem)

    return check


def _problem(hostname: str, claims: dict[str, HostnameClaim], rules: HostnameRules, routes: ForeignRoutes) -> str:
    if not (is_subdomain(hostname) or (rules.wildcards and is_wildcard(hostname))):
        return f'invalid hostname "{hostname}"'
    try:
        check_hostnames((hostname,), _NO_OWNER, claims=claims, rules=rules, routes=routes)
    except HostnameRefusedError as refused:
        return str(refused)
    return ""
