"""Bids that the chain would refuse whatever the order: with too small a deposit, and on an order that is full.

A real node has no code of its own for either (recordings/chain README §1), so the provider would try again for hours.
"""

from __future__ import annotations

from collections.abc import Iterable

from provider.protocols.chain import BidState, MarketParams
from provider.units import Coin

__all__ = ["deposit_reason", "full_reason"]

_COUNTED = frozenset({BidState.OPEN, BidState.ACTIVE, BidState.CLOSED})


def deposit_reason(deposit: Coin, params: MarketParams | None) -> str:
    """Why the chain takes no bid with this deposit (chain.md §4.2); empty when it does, or its parameters are
    unknown.
    """
    least = params.bid_min_deposits if params is not None else {}
    if not least or deposit.amount >= least.get(deposit.denom, deposit.amount + 1):
        return ""
    takes = " or ".join(f"{amount}{denom}" for denom, amount in sorted(least.items()))
    return (
        f"the chain requires a bid deposit of at least {takes}, AP_BID_DEPOSIT is {deposit}: "
        "no bids are made until it is changed"
    )


def full_reason(bids: Iterable[BidState], params: MarketParams | None) -> str:
    """Why an order with `bids` takes no more bids; empty when it does. The chain compares before it adds a bid, so an
    order gets one bid more than `order_max_bids` (chain.md §4.2). Lost bids do not count.
    """
    if params is None or not params.order_max_bids:
        return ""
    count = sum(state in _COUNTED for state in bids)
    if count <= params.order_max_bids:
        return ""
    return f"the order has {count} bids and the chain takes no more (order_max_bids {params.order_max_bids})"
