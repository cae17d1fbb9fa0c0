"""From a decision to a bid on the chain, and the end of a bid."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import structlog

from lease.ids import OrderId
from provider.chain import messages
from provider.errors import ChainError, FeesHeldBack, NotSent, StoreError, TxRefused
from provider.market.book import Hold, Market, Placed
from provider.market.consideration import current_record, made_up_mind, reach_decision, record_decision
from provider.market.decision import Bid
from provider.market.limits import full_reason
from provider.market.offer import bid_message
from provider.market.record.decisions import Recorded
from provider.metrics import BIDS
from provider.protocols.chain import BidState, Order, OrderState

__all__ = ["consider", "consider_all", "end_bid", "forget"]

_log = structlog.get_logger(__name__)
_NEVER = frozenset({13, 15, 20, 21, 23, 24})
"""Codes of the market module that say: this order is not to be had by us, whatever we do (chain.md §10)."""
_EXISTS = ("market", 21)
_FIRST_HOLD, _LONGEST_HOLD = 60.0, 3600.0
_SHORT_HOLD = 1.0
"""After nothing was sent: shorter than the pause before a full pass, so that the first one tries again."""
_SOON_AGAIN = 3
"""How often an order that fails has the full pass come early."""


async def consider(market: Market, item: OrderId | Order) -> None:
    """Decide about an order and bid if it fits, once. A chain or store that fails is logged; the next full pass
    comes back to it. So is a defect of ours: what one tenant wrote ends no other's business.
    """
    order_id = item.id if isinstance(item, Order) else item
    book = market.book
    if order_id in book.busy or market.ledger.reservation(order_id) is not None:
        return
    book.busy.add(order_id)
    try:
        await _consider(market, item, order_id)
    except (ChainError, StoreError) as error:
        _log.warning("market.order_postponed", order=str(order_id), problem=str(error))
        _postpone(market, order_id)
    except Exception:
        _log.exception("market.order_not_decided", order=str(order_id))
        book.held[order_id] = Hold(market.clock.now() + _LONGEST_HOLD)
    finally:
        book.busy.discard(order_id)
        book.over.discard(order_id)


def _postpone(market: Market, order: OrderId) -> None:
    """Soon again, and later each time: an order that always fails does not keep all others being compared."""
    now, held = market.clock.now(), market.book.held.get(order)
    times = held.times + 1 if held is not None else 1
    market.book.held[order] = Hold(now + min(_SHORT_HOLD * 2 ** min(times - 1, 9), _FIRST_HOLD), times)
    if times <= _SOON_AGAIN:
        market.look_again.set()


async def _consider(market: Market, item: OrderId | Order, order_id: OrderId) -> None:
    hold = market.book.held.get(order_id)
    if (hold is not None and hold.until > market.clock.now()) or made_up_mind(market, order_id):
        return
    order = item if isinstance(item, Order) else await market.chain.order(item)
    record = await current_record(market)
    if order is None:
        market.look_again.set()  # told of by a node that is ahead of the one that was asked
        return
    if order.state is not OrderState.OPEN or record is None:
        return
    inputs, decision, mark = await reach_decision(market, order, record)
    try:
        bidders = await _bidders(market, item) if isinstance(decision, Bid) else {}
        if market.provider in bidders:
            _leave_ours(market, order_id, bidders[market.provider])
            return
        recorded = await record_decision(market, inputs, decision, mark)
    except BaseException:
        market.ledger.release(order_id)
        raise
    if recorded is None or not isinstance(decision, Bid):
        return
    if full := full_reason(bidders.values(), market.book.params):
        await _leave_full(market, recorded, full)
    else:
        await _send(market, recorded)


async def _bidders(market: Market, item: OrderId | Order) -> Mapping[str, BidState]:
    """One bid an order for ever, also when it is closed (recordings/chain README §4). Of an order that this block made
    only our own is asked for: nobody can have filled it.
    """
    if isinstance(item, Order):
        return await market.chain.bidders(item.id)
    ours = await market.chain.bid(item.bid_by(market.provider))
    return {} if ours is None else {market.provider: ours.state}


def _leave_ours(market: Market, order: OrderId, state: BidState) -> None:
    """A living one that we did not know of is adopted by the next full pass, with its promise."""
    market.book.held[order] = Hold(inf)
    market.ledger.release(order)
    if state in (BidState.OPEN, BidState.ACTIVE):
        market.look_again.set()


async def _leave_full(market: Market, recorded: Recorded, why: str) -> None:
    """Bids that were closed count too, so it is looked at again only lest the parameter was raised."""
    order = recorded.order
    BIDS.labels("open", "not sent").inc()
    _log.info("market.order_full", order=str(order), problem=why)
    market.book.held[order] = Hold(market.clock.now() + _LONGEST_HOLD)
    market.ledger.release(order)
    await market.outcomes.record(recorded.number, f"not sent: {why}")


async def _send(market: Market, recorded: Recorded) -> None:
    """Refused: the promise goes. No answer: it stays, and the full pass asks the chain what became of the bid."""
    order, number, book = recorded.order, recorded.number, market.book
    if order in book.over:
        market.ledger.release(order)
        await market.outcomes.record(number, "not sent: the order ended first")
        return
    message = bid_message(recorded, provider=market.provider, deposit=market.deposit)
    book.placed[order] = Placed(since=market.clock.now(), decision=number)
    book.tried.setdefault(order.owner, {})[order] = market.clock.now()
    try:
        result = await market.chain.broadcast([message])
    except NotSent as problem:
        await _not_sent(market, recorded, problem)
        return
    except TxRefused as refusal:
        await _refused(market, recorded, refusal)
        return
    except ChainError:
        if order in book.placed:
            book.placed[order] = replace(book.placed[order], unknown_at=book.height)
        raise
    BIDS.labels("open", "sent").inc()
    _log.info("market.bid", order=str(order), height=result.height, hash=result.hash, fee=result.fee)
    await market.outcomes.record(number, f"sent {result.hash} at {result.height}")
    if order in book.over:
        await _close(market, order, "the order ended while the bid was on its way")


async def _not_sent(market: Market, recorded: Recorded, problem: NotSent) -> None:
    """The promise goes, since nothing of it can be on the chain. What the fee budget holds back stays back with it."""
    order, book, now = recorded.order, market.book, market.clock.now()
    BIDS.labels("open", "not sent").inc()
    _log.warning("market.bid_not_sent", order=str(order), problem=str(problem))
    forget(market, order)
    times = book.held[order].times + 1 if order in book.held else 1
    if isinstance(problem, FeesHeldBack):
        book.held[order] = Hold(min(problem.again_at, now + _LONGEST_HOLD), times)
    else:
        book.held[order] = Hold(now + min(_SHORT_HOLD * 2 ** min(times - 1, 9), _LONGEST_HOLD), times)
        market.look_again.set()
    await market.outcomes.record(recorded.number, f"not sent: {str(problem)[:500]}")


async def _refused(market: Market, recorded: Recorded, refusal: TxRefused) -> None:
    """What can never be had is left alone; anything else is tried again later and later."""
    order, book = recorded.order, market.book
    BIDS.labels("open", "refused").inc()
    _log.warning(
        "market.bid_refused", order=str(order), codespace=refusal.codespace, code=refusal.code, log=refusal.log
    )
    forget(market, order)
    times = book.held[order].times + 1 if order in book.held else 1
    pause = inf if refusal.codespace == "market" and refusal.code in _NEVER else _FIRST_HOLD * 2 ** min(times - 1, 9)
    book.held[order] = Hold(market.clock.now() + (pause if pause == inf else min(pause, _LONGEST_HOLD)), times)
    if (refusal.codespace, refusal.code) == _EXISTS:
        market.look_again.set()  # a bid of ours that we did not know of: it is adopted with its promise
    words = f"refused {refusal.codespace} {refusal.code}: {refusal.log[:500]}"
    await market.outcomes.record(recorded.number, words)


def forget(market: Market, order: OrderId) -> Placed | None:
    """Release the promise of an order that is not leased to us."""
    placed = market.book.placed.pop(order, None)
    if order not in market.book.leased:
        market.ledger.release(order)
    return placed


async def end_bid(market: Market, order: OrderId, why: str, *, until_closed: bool = False) -> None:
    """Lost, closed or timed out: release the promise, and take the bid back if the chain still has it open. With
    `until_closed` the promise is kept as long: the order is open, so the tenant may take the bid meanwhile.

    The chain is asked first. A losing bid may stay open with its deposit locked (chain.md §14, 1); and an order that is
    open no more may be so because it was given to us, of which we have heard nothing yet.
    """
    if order in market.book.busy:
        market.book.over.add(order)
        return
    try:
        placed = await _close(market, order, why, until_closed=until_closed)
        if placed is not None and placed.decision:
            await market.outcomes.record(placed.decision, why)
    except (ChainError, StoreError) as error:
        _log.warning("market.bid_not_closed", order=str(order), problem=str(error))
        if not isinstance(error, FeesHeldBack):  # for that any full pass is soon enough
            market.look_again.set()


async def _close(market: Market, order: OrderId, why: str, *, until_closed: bool = False) -> Placed | None:
    bid_id = order.bid_by(market.provider)
    found = await market.chain.bid(bid_id)
    if found is not None and found.state is BidState.ACTIVE:
        market.look_again.set()
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
            market.look_again.set()
            return None
        _log.debug("market.bid_was_closed_already", order=str(order), log=refusal.log)
    forget(market, order)
    market.book.deposits.pop(order, None)
    BIDS.labels("close", "sent").inc()
    _log.info("market.bid_closed", order=str(order), why=why)
    return placed


async def consider_all(market: Market, orders: Sequence[Order], *, at_once: int = 32) -> None:
    """Many orders, `at_once` side by side: their bids share blocks instead of taking one each."""
    slots = asyncio.Semaphore(at_once)

    async def one(order: Order) -> None:
        async with slots:
            await consider(market, order)

    await asyncio.gather(*(one(order) for order in orders))
