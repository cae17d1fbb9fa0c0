"""The fee budget: fees of the last 24 hours against what the operator allows for a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from provider.chain.tx.intents import Intent, Rank
from provider.chain.tx.journal import Journal
from provider.errors import FeesHeldBack

__all__ = ["DAY_S", "Allowance", "affordable", "allowance"]

_log = structlog.get_logger(__name__)
DAY_S = 86400.0
_SHARES = {Rank.CLOSE: 100, Rank.WITHDRAW: 90, Rank.OTHER: 80, Rank.BID: 70}
"""Per cent of the budget that each rank may use up. The last tenth is for closing leases alone, since a lease that
cannot be closed costs every block; the tenth before it is for withdrawals too, which bring money in.
"""


@dataclass(frozen=True, slots=True)
class Allowance:
    """`left`: what this rank may still spend now. `again_at`: Unix seconds when the oldest fee no longer counts."""

    left: int
    spent: int
    again_at: float


def allowance(paid: Sequence[tuple[float, int]], *, budget: int, rank: Rank, now: float) -> Allowance:
    """What `rank` may spend at `now`. `paid`: (time, fee) of the last day, oldest first. The window slides, so that no
    midnight doubles the budget.
    """
    counted = [(at, fee) for at, fee in paid if at > now - DAY_S]
    spent = sum(fee for _, fee in counted)
    oldest = counted[0][0] if counted else now
    return Allowance(max(0, budget * _SHARES[rank] // 100 - spent), spent, oldest + DAY_S)


async def affordable(
    intents: tuple[Intent, ...], *, fee: int, denom: str, budget: int, journal: Journal, account: str, now: float
) -> tuple[Intent, ...]:
    """As many of `intents` as the budget of the day allows when all of them together cost `fee`; the others are
    finished with `FeesHeldBack`. A budget of 0 is no limit. Raises `StoreError`.
    """
    if not budget:
        return intents
    rank = intents[0].rank
    paid = await journal.fees(account, denom=denom, since=now - DAY_S)
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
