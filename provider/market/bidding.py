"""One order, from sight to bid, and the end of a bid.

Only here a bid message is made, and only from a decision that is recorded. Between looking at what is free and
promising it nothing is awaited, so two orders never get the same room.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from lease.ids import OrderId
from provider.chain import messages
from provider.chain.model import BidState, Order, OrderState
from provider.errors import ChainError, StoreError, TxRefused
from provider.inventory.snapshot import Snapshot
from provider.market.book import Market, Placed
from provider.market.decision import Audits, Bid, Decision, Declined, Rules, decide, lines_of
from provider.market.pricing import maximum_price
from provider.market.quote import Asked, Quote
from provider.observe.metrics import BIDS, DECISIONS
from provider.store.decisions import DecisionInputs, record_decision, record_outcome

__all__ = ["consider", "end_bid"]

_log = structlog.get_logger(__name__)


async def consider(market: Market, item: OrderId | Order) -> None:
    """Decide about an order and bid if it fits, once. A chain or store that fails is logged; the next full pass
    comes back to it.
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
        market.look_again.set()
    finally:
        book.busy.discard(order_id)
        book.over.discard(order_id)


async def _consider(market: Market, item: OrderId | Order, order_id: OrderId) -> None:
    order = item if isinstance(item, Order) else await market.chain.order(item)
    if order is None or order.state is not OrderState.OPEN or market.book.record is None:
        return
    if await market.chain.bid(order_id.bid_by(market.provider)) is not None:
        return  # one bid an order for ever, also a closed one (recordings/chain README §4)
    inputs, decision = await _decide(market, order, await _audits(market, order))
    try:
        number = await _record(market, inputs, decision)
    except BaseException:
        market.ledger.release(order_id)
        raise
    if isinstance(decision, Bid):
        await _send(market, order_id, decision, number)


async def _audits(market: Market, order: Order) -> Audits:
    signed_by = order.spec.requirements.signed_by
    auditors = dict.fromkeys((*(signed_by.all_of or ()), *(signed_by.any_of or ())))
    found = {}
    for auditor in auditors:
        signed = await market.chain.audited_attributes(provider=market.provider, auditor=auditor)
        found[auditor] = tuple(signed)
    return found


async def _decide(market: Market, order: Order, audits: Audits) -> tuple[DecisionInputs, Decision]:
    """Look, decide and promise in one step. Where a strategy must be asked, its room is promised while it thinks, and
    its word is the last input of the decision.
    """
    assert market.book.record is not None  # noqa: S101  # the caller looked
    snapshot: Snapshot = market.ledger.free(market.inventory())
    rules = market.rules if market.pricing is None else _at_most(market, order)
    inputs = DecisionInputs(order, market.book.record, snapshot, rules, audits)
    decision = decide(order, inputs.record, snapshot=snapshot, rules=rules, audits=audits)
    if not isinstance(decision, Bid):
        return replace(inputs, rules=market.rules), decision
    market.ledger.promise(decision.reservation)
    return (inputs, decision) if market.pricing is None else await _priced(market, inputs, decision)


def _at_most(market: Market, order: Order) -> Rules:
    """As if the strategy had said the order's maximum: does everything else allow a bid?"""
    return replace(market.rules, prices=Quote("", maximum_price(order.spec)))


async def _priced(market: Market, inputs: DecisionInputs, fits: Bid) -> tuple[DecisionInputs, Decision]:
    assert market.pricing is not None  # noqa: S101  # the caller looked
    order = inputs.order
    asked = Asked(order.id, order.spec, fits.offer, maximum_price(order.spec))
    decision: Decision = Declined(())
    try:
        inputs = replace(inputs, rules=replace(market.rules, prices=await market.pricing(asked)))
        decision = decide(order, inputs.record, snapshot=inputs.snapshot, rules=inputs.rules, audits=inputs.audits)
    finally:
        if isinstance(decision, Declined):
            market.ledger.release(order.id)
    return inputs, decision


async def _record(market: Market, inputs: DecisionInputs, decision: Decision) -> int:
    """The decision's number; a refusal with the same reasons as the last one of this order is not stored again."""
    order = inputs.order.id
    if isinstance(decision, Declined) and market.book.declined.get(order) == decision.reasons:
        return 0
    number = await record_decision(market.database, inputs, decision, now=market.clock.now())
    if isinstance(decision, Declined):
        market.book.declined[order] = decision.reasons
        DECISIONS.labels("declined").inc()
        _log.info("market.declined", order=str(order), reasons=list(decision.reasons))
    else:
        DECISIONS.labels("bid").inc()
        _tell(inputs, decision, number)
    return number


def _tell(inputs: DecisionInputs, bid: Bid, number: int) -> None:
    """One line: the price with what it is made of, and the node of every replica."""
    spec = inputs.order.spec
    most = maximum_price(spec)
    lines = [line for line in lines_of(spec, inputs.rules.prices) if line.amount]
    parts = [f"{line.quantity.normalize():f} {line.what} × {line.scale:f}" for line in lines]
    _log.info(
        "market.decided",
        order=str(inputs.order.id),
        price=f"{bid.price.amount.normalize():f}{bid.price.denom}",
        maximum=f"{most.amount.normalize():f}{most.denom}",
        parts=parts,
        nodes={str(unit): list(names) for unit, names in bid.reservation.nodes.items()},
        decision=number,
    )


async def _send(market: Market, order: OrderId, bid: Bid, number: int) -> None:
    """Refused: the promise goes. No answer: it stays, and the full pass asks the chain what became of the bid."""
    if order in market.book.over:
        market.ledger.release(order)
        await record_outcome(market.database, number, "not sent: the order ended first")
        return
    message = messages.create_bid(
        order.bid_by(market.provider), price=bid.price, deposit=market.deposit, offer=bid.offer
    )
    market.book.placed[order] = Placed(since=market.clock.now(), decision=number)
    try:
        result = await market.chain.broadcast([message])
    except TxRefused as refusal:
        BIDS.labels("open", "refused").inc()
        _log.warning(
            "market.bid_refused", order=str(order), codespace=refusal.codespace, code=refusal.code, log=refusal.log
        )
        forget(market, order)
        await record_outcome(
            market.database, number, f"refused {refusal.codespace} {refusal.code}: {refusal.log[:500]}"
        )
        return
    BIDS.labels("open", "sent").inc()
    _log.info("market.bid", order=str(order), height=result.height, hash=result.hash, fee=result.fee)
    await record_outcome(market.database, number, f"sent {result.hash} at {result.height}")
    if order in market.book.over:
        await _close(market, order, "the order ended while the bid was on its way")


def forget(market: Market, order: OrderId) -> Placed | None:
    """Release the promise of an order that is not leased to us."""
    placed = market.book.placed.pop(order, None)
    if order not in market.book.leased:
        market.ledger.release(order)
    return placed


async def end_bid(market: Market, order: OrderId, why: str) -> None:
    """Lost, closed or timed out: release the promise now, and take the bid back if the chain still has it open.

    A losing bid may stay open with its deposit locked (chain.md §14, 1), so the chain is asked rather than believed
    to clean up.
    """
    if order in market.book.busy:
        market.book.over.add(order)
        return
    placed = forget(market, order)
    try:
        await _close(market, order, why)
        if placed is not None and placed.decision:
            await record_outcome(market.database, placed.decision, why)
    except (ChainError, StoreError) as error:
        _log.warning("market.bid_not_closed", order=str(order), problem=str(error))
        market.look_again.set()


async def _close(market: Market, order: OrderId, why: str) -> None:
    forget(market, order)
    bid_id = order.bid_by(market.provider)
    found = await market.chain.bid(bid_id)
    if found is None or found.state is not BidState.OPEN:
        return
    try:
        await market.chain.broadcast([messages.close_bid(bid_id)])
    except TxRefused as refusal:
        again = await market.chain.bid(bid_id)
        if again is not None and again.state is BidState.OPEN:
            raise
        _log.debug("market.bid_was_closed_already", order=str(order), log=refusal.log)
    BIDS.labels("close", "sent").inc()
    _log.info("market.bid_closed", order=str(order), why=why)


async def consider_all(market: Market, orders: list[Order], *, at_once: int = 32) -> None:
    """Many orders, `at_once` side by side: their bids share blocks instead of taking one each."""
    slots = asyncio.Semaphore(at_once)

    async def one(order: Order) -> None:
        async with slots:
            await consider(market, order)

    await asyncio.gather(*(one(order) for order in orders))
