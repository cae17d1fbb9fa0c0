"""Fees of the last 24 hours against what the operator allows for a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from provider.chain.tx.intents import Intent, Rank
from provider.chain.tx.journal import Journal
from provider.errors import FeesHeldBack

__all__ = ["DAY_SECONDS", "Allowance", "affordable", "allowance"]

_log = structlog.get_logger(__name__)
DAY_SECONDS = 86400.0
_SHARES = {Rank.CLOSE: 100, Rank.WITHDRAW: 90, Rank.OTHER: 80, Rank.BID: 70}
"""Per cent of the budget that each rank may use up: the last tenth is for closing leases alone, since a lease that
cannot be closed costs every block; the tenth before it also for withdrawals, which bring money in."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """`left` for this rank now; `again_at`: Unix seconds when the oldest fee of the day no longer counts."""

    left: int
    spent: int
    again_at: float


def allowance(paid: Sequence[tuple[float, int]], *, budget: int, rank: Rank, now: float) -> Allowance:
    """`paid`: (time, fee) of the last day, oldest first. The window slides: no midnight doubles it."""
    counted = [(at, fee) for at, fee in paid if at > now - DAY_SECONDS]
    spent = sum(fee for _, fee in counted)
    oldest = counted[0][0] if counted else now
    return Allowance(max(0, budget * _SHARES[rank] // 100 - spent), spent, oldest + DAY_SECONDS)


async def affordable(
    intents: tuple[Intent, ...], *, fee: int, denom: str, budget: int, journal: Journal, account: str, now: float
) -> tuple[Intent, ...]:
    """As many of `intents` as the day's budget has room for when all of them together cost `fee`; the others are told
    that they are held back. A budget of 0 is none. Raises `StoreError`.
    """
    if not budget:
        return intents
    rank = intents[0].rank
    paid = await journal.fees(account, denom=denom, since=now - DAY_SECONDS)
    found = allowance(paid, budget=budget, rank=rank, now=now)
    if fee <= found.left:
        return intents
    count = len(intents)
    few = min(count - 1, count * found.left // fee)
    text = (
        f"fees of the last 24 hours are {found.spent}{denom} of {budget}{denom} (LESSOR_FEE_BUDGET), of which "
        f"{rank.name.lower()} transactions may use {found.left}{denom} more; this one needs {-(-fee // count)}{denom}"
    )
    _log.warning("chain.fees_held_back", kind=rank.name.lower(), count=count - few, problem=text)
    for intent in intents[few:]:
        intent.finish(FeesHeldBack(text, again_at=found.again_at))
    return intents[:few]
