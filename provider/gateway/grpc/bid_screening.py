"""`BidScreening`: whether this provider would bid on a group, and for how much. The decision is the market's own, for
any caller (gateway.md §5, where the Go provider answers UNIMPLEMENTED).

The response shows no more than a bid, or its absence, would show: reasons are summed over all nodes and name none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
import structlog
from akash.market.v1beta5 import types_pb2 as market_pb
from akash.provider.v1 import service_pb2

from lease.groups import GroupSpec
from lease.kubernetes_names import is_subdomain
from provider.chain import codec
from provider.claims.foreign_routes import ForeignRoutes, foreign_routes
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    HostnameRules,
    check_hostnames,
    host_claims,
)
from provider.errors import ProviderError
from provider.market.decision import BidDecision
from provider.market.explanation import Explanation
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_HOST

__all__ = ["BidScreening", "BlockedHostnames", "Screen", "screened_hostnames"]

Screen: TypeAlias = Callable[[GroupSpec], Awaitable[Explanation]]
BlockedHostnames: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""The reasons why hostnames are not available, one per hostname; empty when all are available."""

_log = structlog.get_logger(__name__)
_MAX_REQUESTS = 8
"""Requests at one time; each may run a price script."""
_MAX_HOSTNAMES = 100
_MAX_REASON = 400
_NO_OWNER = ""
"""The caller is not authenticated, so a hostname of his own counts as in use too."""


class BidScreening:
    """`hostnames` checks the hostnames that the manifest would request; without it they are not checked."""

    def __init__(self, screen: Screen, *, hostnames: BlockedHostnames | None = None) -> None:
        self._screen = screen
        self._hostnames = hostnames
        self._waiting = 0

    async def answer(self, request: Any, context: Any) -> Any:
        """`BidScreeningRequest` → `BidScreeningResponse`. Aborts with INVALID_ARGUMENT without a valid group,
        RESOURCE_EXHAUSTED for too many requests at once, UNAVAILABLE when the chain or the cluster does not answer.
        """
        spec = await _spec(request, context)
        if self._waiting >= _MAX_REQUESTS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests at once; try again")
        self._waiting += 1
        try:
            found = await self._screen(spec)
            names = await self._hostnames(list(request.hostnames)) if self._hostnames is not None else ()
        except ProviderError as error:
            _log.warning("gateway.screening_failed", problem=str(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this provider cannot answer now; try again")
            raise AssertionError("aborted") from error
        finally:
            self._waiting -= 1
        return _response(found, names)


async def _spec(request: Any, context: Any) -> GroupSpec:
    problem = "group_spec is missing" if not request.HasField("group_spec") else ""
    if len(request.hostnames) > _MAX_HOSTNAMES:
        problem = f"more than {_MAX_HOSTNAMES} hostnames"
    if not problem:
        try:
            return codec.group_from_pb(request.group_spec)
        except (ValueError, ArithmeticError) as error:
            problem = f"group_spec: {error}"
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem[:_MAX_REASON])
    raise AssertionError("aborted")


def _response(found: Explanation, names: Sequence[str]) -> Any:
    decision = found.decision
    if not isinstance(decision, BidDecision):
        return service_pb2.BidScreeningResponse(passed=False, reasons=_short((*decision.reasons, *names)))
    offers = [
        market_pb.ResourceOffer(resources=codec.resources_to_pb(unit.resources), count=unit.count)
        for unit in decision.offer
    ]
    return service_pb2.BidScreeningResponse(
        passed=not names, reasons=_short(names), resource_offers=offers, price=codec.price_to_pb(decision.price)
    )


def _short(reasons: Sequence[str]) -> list[str]:
    return [reason[:_MAX_REASON] for reason in reasons[:_MAX_HOSTNAMES]]


def screened_hostnames(cluster: Cluster, *, namespace: str, rules: HostnameRules) -> BlockedHostnames:
    """A check of hostnames as a manifest with them would meet it now. It reads the claims in `namespace` for every
    request that names hosts, and raises `ClusterError`.
    """

    async def check(hostnames: Sequence[str]) -> Sequence[str]:
        if not hostnames:
            return ()
        claims = host_claims(await cluster.list(PROVIDER_HOST, namespace=namespace))
        routes = await foreign_routes(cluster)
        problems = (_problem(name, claims, rules, routes) for name in dict.fromkeys(map(str.lower, hostnames)))
        return tuple(problem for problem in problems if problem)

    return check


def _problem(hostname: str, claims: dict[str, HostnameClaim], rules: HostnameRules, routes: ForeignRoutes) -> str:
    if not is_subdomain(hostname):
        return f'invalid hostname "{hostname}"'
    try:
        check_hostnames((hostname,), _NO_OWNER, claims=claims, rules=rules, routes=routes)
    except HostnameRefusedError as refused:
        return str(refused)
    return ""
