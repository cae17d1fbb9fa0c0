"""What a screening shows of a decision: no more than a bid, or its absence, would show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Price
from provider.market.decision import BidDecision
from provider.market.screening import Screening

__all__ = ["Screen", "Verdict", "screen_of"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`price` and `offer` of a bid, or without a price the `reasons` against one."""

    reasons: tuple[str, ...] = ()
    price: Price | None = None
    offer: tuple[ResourceUnit, ...] = ()


Screen: TypeAlias = Callable[[GroupSpec], Awaitable[Verdict]]


def screen_of(screening: Screening) -> Screen:
    """The verdicts of `screening`, with what it raises."""

    async def screen(spec: GroupSpec) -> Verdict:
        decision = (await screening.screen(spec))[1].decision
        if isinstance(decision, BidDecision):
            return Verdict(price=decision.price, offer=decision.offer)
        return Verdict(decision.reasons)

    return screen
