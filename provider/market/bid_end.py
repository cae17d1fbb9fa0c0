"""The end of a bid: its reservation is released, and a bid that the chain still has open is closed."""

from __future__ import annotations

import structlog

from lease.ids import OrderId
from provider.chain import messages
from provider.errors import ChainError, FeesHeldBack, StoreError, TxRefused
from provider.market.book import Market, Placed, release_unleased
from provider.metrics import BIDS, ORDERS_COMPLETE
from provider.protocols.chain import BidState

__all__ = ["BID_CLOSED_ELSEWHERE", "BID_TIMEOUT", "LEASE_LOST", "ORDER_CLOSED", "close_bid", "end_bid", "forget"]

ORDER_CLOSED = "order-closed"
LEASE_LOST = "lease-lost"
BID_CLOSED_ELSEWHERE = "bid-closed-external"
BID_TIMEOUT = "bid-timeout"

_log = structlog.get_logger(__name__)


def forget(market: Market, order: OrderId) -> Placed | None:
    """Forget the bid on `order`, and release its reservation unless it is a lease's. Returns what was remembered."""
    placed = market.book.placed.pop(order, None)
    release_unleased(market, order)
    return placed


async def end_bid(
    market: Market, order: OrderId, why: str, *, until_closed: bool = False, result: str = ORDER_CLOSED
) -> None:
    """End a bid that was lost, closed or timed out: release its reservation, and close the bid if the chain has it
    open. With `until_closed` the reservation is kept until the bid is closed: the order is open, so the tenant may
    accept the bid until then. `result`: as the metric of ended orders names it.

    A bid that is being decided or sent ends when that is done. An error is logged, and a full pass tries again.
    """
    if order in market.book.busy:
        market.book.ended.add(order)
        return
    try:
        placed = await close_bid(market, order, why, until_closed=until_closed)
        if placed is not None:
            ORDERS_COMPLETE.labels(result).inc()
        if placed is not None and placed.decision:
            await market.outcomes.record(placed.decision, why)
    except (ChainError, StoreError) as error:
        BIDS.labels("close", "fail").inc()
        _log.warning("market.bid_not_closed", order=str(order), problem=str(error))
        if not isinstance(error, FeesHeldBack):  # fees that are held back can wait for any full pass
            market.full_pass_due.set()


async def close_bid(market: Market, order: OrderId, why: str, *, until_closed: bool = False) -> Placed | None:
    """Returns what was remembered of the bid; None when the tenant has accepted it. Raises `ChainError`.

    The chain is asked first. A losing bid may stay open with its deposit locked (chain.md §14, 1). An order that is no
    longer open may have become a lease of this provider, of which no event has come yet.
    """
    bid_id = order.bid_by(market.provider)
    found = await market.chain.bid(bid_id)
    if found is not None and found.state is BidState.ACTIVE:
        market.full_pass_due.set()
        return None
    is_open = found is not None and found.state is BidState.OPEN
    placed = market.book.placed.get(order) if is_open and until_closed else forget(market, order)
    if not is_open:
        market.book.deposits.pop(order, None)
        return placed
    try:
        await market.chain.broadcast([messages.close_bid(bid_id)])
    except TxRefused as refusal:
        again = await market.chain.bid(bid_id)
        if again is not None and again.state is BidState.OPEN:
            raise
        if again is not None and again.state is BidState.ACTIVE:
            market.full_pass_due.set()
            return None
        _log.debug("market.bid_was_closed_already", order=str(order), log=refusal.log)
    forget(market, order)
    market.book.deposits.pop(order, None)
    BIDS.labels("close", "success").inc()
    _log.info("market.bid_closed", order=str(order), why=why)
    return placed
