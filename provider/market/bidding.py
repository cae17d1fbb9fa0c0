"""What happens to an open order, top-down: `provider.market.judgement` decides and records, this module sends the bid
and handles the chain's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import inf

import structlog

from lease.ids import OrderId
from provider.chain import messages
from provider.errors import CannotPay, ChainError, FeesHeldBack, NotSent, StoreError, TxRefused
from provider.market.bid_end import close_bid, forget
from provider.market.book import Hold, Market, Placed, release_unleased
from provider.market.decision import BidDecision
from provider.market.inputs import declined_unchanged
from provider.market.judgement import Judgement, judge
from provider.market.limits import full_reason
from provider.market.record.log import Recorded
from provider.metrics import BIDS, BIDS_UNSENT, ORDER_HANDLERS, SHOULD_BID
from provider.protocols.chain import Message, Order, TxResult
from provider.units import Coin
from provider.waits import GrowingPause

__all__ = ["bid_message", "consider", "consider_all"]

_log = structlog.get_logger(__name__)
_NEVER = frozenset({13, 15, 20, 21, 23, 24})
"""Codes of the market module with which the chain refuses every bid of this provider on the order (chain.md §10)."""
_EXISTS = ("market", 21)
_LONGEST_HOLD_S = 3600.0
_REFUSED_HOLD = GrowingPause(first=60.0, longest=_LONGEST_HOLD_S)
_UNPAID_HOLD_S = 60.0
"""It says nothing about the order and costs only a simulation, so that a wallet filled again is used soon."""
_UNSENT_HOLD = GrowingPause(first=1.0, longest=512.0)
_FAILED_HOLD = GrowingPause(first=1.0, longest=60.0)
"""After nothing was sent: shorter than the pause before a full pass, so that the first full pass tries again."""
_SOON_AGAIN = 3
"""How often an order that fails brings the full pass forward."""


async def consider_all(market: Market, orders: Sequence[Order], *, at_once: int = 32) -> None:
    """`consider` for many orders, `at_once` side by side, so that their bids share blocks."""
    slots = asyncio.Semaphore(at_once)

    async def one(order: Order) -> None:
        async with slots:
            await consider(market, order)

    await asyncio.gather(*(one(order) for order in orders))


async def consider(market: Market, item: OrderId | Order) -> None:
    """Decide about an open order, and bid if that is the decision. An order is handled once at a time, and not at all
    while it is held back, or while nothing has changed since it was declined.

    A chain or a store that fails is logged, and a full pass tries again. So is a defect: what one tenant wrote must not
    stop the bids on other tenants' orders.
    """
    order, book = item.id if isinstance(item, Order) else item, market.book
    if order in book.busy or market.ledger.reservation(order) is not None:
        return
    book.busy.add(order)
    try:
        if not _held_back(market, order) and not declined_unchanged(market, order):
            await _handle(market, item)
    except (ChainError, StoreError) as error:
        _log.warning("market.order_postponed", order=str(order), problem=str(error))
        _postpone(market, order)
    except Exception:
        _log.exception("market.order_not_decided", order=str(order))
        book.held[order] = Hold(market.clock.now() + _LONGEST_HOLD_S)
    finally:
        book.busy.discard(order)
        book.ended.discard(order)


async def _handle(market: Market, item: OrderId | Order) -> None:
    ORDER_HANDLERS.labels("start").inc()
    try:
        judgement = await _judged(market, item)
        if judgement is not None:
            await _bid(market, judgement)
    finally:
        ORDER_HANDLERS.labels("stop").inc()


async def _judged(market: Market, item: OrderId | Order) -> Judgement | None:
    try:
        return await judge(market, item)
    except Exception:
        SHOULD_BID.labels("fail").inc()
        raise


def _held_back(market: Market, order: OrderId) -> bool:
    hold = market.book.held.get(order)
    return hold is not None and hold.until > market.clock.now()


def _postpone(market: Market, order: OrderId) -> None:
    """Soon at first, later each time: an order that always fails must not cause one full pass after another."""
    times = _times_held(market, order) + 1
    market.book.held[order] = Hold(market.clock.now() + _FAILED_HOLD.after(times), times)
    if times <= _SOON_AGAIN:
        market.full_pass_due.set()


def _times_held(market: Market, order: OrderId) -> int:
    held = market.book.held.get(order)
    return 0 if held is None else held.times


async def _bid(market: Market, judgement: Judgement) -> None:
    """Send the bid that was decided, unless the order takes no more bids or has ended meanwhile."""
    recorded = judgement.recorded
    if full := full_reason(judgement.bids, market.book.params):
        await _leave_full_order(market, recorded, full)
    elif recorded.order in market.book.ended:
        release_unleased(market, recorded.order)
        await market.outcomes.record(recorded.number, "not sent: the order ended first")
    else:
        await _send(market, recorded)


async def _leave_full_order(market: Market, recorded: Recorded, why: str) -> None:
    """Closed bids count too, so the order stays full, unless the parameter of the chain is raised."""
    order = recorded.order
    BIDS_UNSENT.labels("order full").inc()
    _log.info("market.order_full", order=str(order), problem=why)
    market.book.held[order] = Hold(market.clock.now() + _LONGEST_HOLD_S)
    release_unleased(market, order)
    await market.outcomes.record(recorded.number, f"not sent: {why}")


async def _send(market: Market, recorded: Recorded) -> None:
    """A refusal releases the reservation. Without an answer it stays, and a full pass asks the chain for the bid."""
    order, book, now = recorded.order, market.book, market.clock.now()
    message = bid_message(recorded, provider=market.provider, deposit=market.deposit)
    book.placed[order] = Placed(since=now, decision=recorded.number)
    book.bid_at.setdefault(order.owner, {})[order] = now
    try:
        result = await market.chain.broadcast([message])
    except NotSent as problem:
        await _not_sent(market, recorded, problem)
    except TxRefused as refusal:
        await _refused(market, recorded, refusal)
    except ChainError:
        if order in book.placed:
            book.placed[order] = replace(book.placed[order], unknown_at=book.height)
        raise
    else:
        await _sent(market, recorded, result)


def bid_message(recorded: Recorded, *, provider: str, deposit: Coin) -> Message:
    """The message of the bid that was decided (bidding.md §1.5). No other place makes one. Raises `TypeError` for
    anything but the record of a decision to bid.
    """
    if not isinstance(recorded, Recorded) or not isinstance(recorded.decision, BidDecision):
        raise TypeError("a bid needs the record of a decision to bid")
    bid = recorded.decision
    return messages.create_bid(
        recorded.order.bid_by(provider),
        price=bid.price,
        deposit=deposit,
        offer=bid.offer,
        reclamation_s=bid.reclamation_s,
    )


async def _sent(market: Market, recorded: Recorded, result: TxResult) -> None:
    order = recorded.order
    BIDS.labels("open", "success").inc()
    _log.info("market.bid", order=str(order), height=result.height, hash=result.hash, fee=result.fee)
    await market.outcomes.record(recorded.number, f"sent {result.hash} at {result.height}")
    if order in market.book.ended:
        await close_bid(market, order, "the order ended while the bid was on its way")


async def _not_sent(market: Market, recorded: Recorded, problem: NotSent) -> None:
    """The reservation is released, since the chain cannot have the bid. A bid for which the day's fee budget has
    nothing left waits until the budget allows it.
    """
    order, book, now = recorded.order, market.book, market.clock.now()
    BIDS.labels("open", "fail").inc()
    BIDS_UNSENT.labels("not sent").inc()
    _log.warning("market.bid_not_sent", order=str(order), problem=str(problem))
    forget(market, order)
    times = _times_held(market, order) + 1
    if isinstance(problem, FeesHeldBack):
        book.held[order] = Hold(min(problem.again_at, now + _LONGEST_HOLD_S), times)
    else:
        book.held[order] = Hold(now + _UNSENT_HOLD.after(times), times)
        market.full_pass_due.set()
    await market.outcomes.record(recorded.number, f"not sent: {str(problem)[:500]}")


async def _refused(market: Market, recorded: Recorded, refusal: TxRefused) -> None:
    """An order on which the chain takes no bid of this provider is left alone. Anything else is tried again, later each
    time.
    """
    order, now = recorded.order, market.clock.now()
    BIDS.labels("open", "fail").inc()
    BIDS_UNSENT.labels("refused by the chain").inc()
    _log.warning(
        "market.bid_refused", order=str(order), codespace=refusal.codespace, code=refusal.code, log=refusal.log
    )
    forget(market, order)
    times = _times_held(market, order) + 1
    never = refusal.codespace == "market" and refusal.code in _NEVER
    pause = _UNPAID_HOLD_S if isinstance(refusal, CannotPay) else _REFUSED_HOLD.after(times)
    market.book.held[order] = Hold(inf if never else now + pause, times)
    if (refusal.codespace, refusal.code) == _EXISTS:
        market.full_pass_due.set()  # an unknown bid of this provider: the full pass adopts it with its reservation
    await market.outcomes.record(recorded.number, f"refused {refusal.codespace} {refusal.code}: {refusal.log[:500]}")
