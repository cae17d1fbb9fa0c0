"""`BidScreening`: would this provider bid on a group, and for how much? The same function as the market's, for anybody
who asks (gateway.md §5, where the Go provider answers UNIMPLEMENTED).

What is told is what a bid, or its absence, would show in time: reasons in sum over all nodes, no name of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
import structlog
from akash.market.v1beta5 import types_pb2 as market_pb
from akash.provider.v1 import service_pb2

from lease.groups import GroupSpec
from provider.chain import codec
from provider.errors import ProviderError
from provider.market.decision import BidDecision
from provider.market.explanation import Explanation

__all__ = ["BidScreening", "BlockedHostnames", "Screen"]

Screen: TypeAlias = Callable[[GroupSpec], Awaitable[Explanation]]
BlockedHostnames: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Why hostnames cannot be had, one reason each; empty when all can."""

_log = structlog.get_logger(__name__)
_MOST_WAITING = 8
"""Questions at one time; each may run a price script."""
_MOST_HOSTNAMES = 100
_REASON = 400


class BidScreening:
    """`hostnames` judges names that the manifest would ask for; without it they are not looked at."""

    def __init__(self, screen: Screen, *, hostnames: BlockedHostnames | None = None) -> None:
        self._screen = screen
        self._hostnames = hostnames
        self._waiting = 0

    async def answer(self, request: Any, context: Any) -> Any:
        """`BidScreeningRequest` → `BidScreeningResponse`. INVALID_ARGUMENT for no group, RESOURCE_EXHAUSTED when too
        many ask, UNAVAILABLE when the chain does not answer us.
        """
        spec = await _spec(request, context)
        if self._waiting >= _MOST_WAITING:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many ask at once; try again")
        self._waiting += 1
        try:
            found = await self._screen(spec)
            names = await self._hostnames(list(request.hostnames)) if self._hostnames is not None else ()
        except ProviderError as error:
            _log.warning("gateway.screening_failed", problem=str(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this provider cannot tell now; try again")
            raise AssertionError("aborted") from error
        finally:
            self._waiting -= 1
        return _response(found, names)


async def _spec(request: Any, context: Any) -> GroupSpec:
    problem = "group_spec is missing" if not request.HasField("group_spec") else ""
    if len(request.hostnames) > _MOST_HOSTNAMES:
        problem = f"more than {_MOST_HOSTNAMES} hostnames"
    if not problem:
        try:
            return codec.group_from_pb(request.group_spec)
        except (ValueError, ArithmeticError) as error:
            problem = f"group_spec: {error}"
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem[:_REASON])
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
    return [reason[:_REASON] for reason in reasons[:_MOST_HOSTNAMES]]
