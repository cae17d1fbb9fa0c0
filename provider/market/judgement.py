"""From an order to its recorded decision: `judge` reads, decides, reserves and records. It sends nothing.

The capacity of a bid is reserved in the step that reads the free capacity. Nothing is awaited between the two, so no
two orders are given the same capacity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

import structlog

from lease.ids import OrderId
from provider.market.book import Declination, Hold, Market, release_unleased
from provider.market.decision import BidDecision, Decision, DecisionInputs, Declined, decide
from provider.market.inputs import current_inputs, current_record
from provider.market.pricing.bid_price import bid_price_lines
from provider.market.pricing.quote import maximum_price
from provider.market.quotation import ask_strategy, decide_at_maximum, known_quote, price_request, with_quote
from provider.market.record.decisions import short_reasons
from provider.market.record.log import Recorded
from provider.metrics import (
    DECISIONS,
    DECLINED,
    INVENTORY_REQUESTS,
    PRICING_DURATION,
    RESERVATION_DURATION,
    RESERVATIONS,
    SHOULD_BID,
)
from provider.protocols.chain import BidState, Order, OrderState

__all__ = ["Judgement", "judge"]

_log = structlog.get_logger(__name__)
_NUMBERS = re.compile(r"\d+")
_CAPACITY = ("capacity", "leased IPs", "node ports")
"""The checks of what the inventory has free."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A recorded decision to bid, whose capacity is reserved. `bids`: the states of the bids that the order has."""

    recorded: Recorded
    bids: Collection[BidState]


async def judge(market: Market, item: OrderId | Order) -> Judgement | None:
    """Decide about an order and record the decision.

    Returns None when there is nothing to send: the order is not open, it is declined, or this provider has bid on it
    before. In these cases, and after an error, `judge` leaves nothing reserved. Raises `ChainError` and `StoreError`.
    """
    order = item if isinstance(item, Order) else await market.chain.order(item)
    record = await current_record(market)
    if order is None:
        market.full_pass_due.set()  # the node that sent the event is ahead of the node that answered
        return None
    if order.state is not OrderState.OPEN or record is None:
        return None
    inputs, mark = await current_inputs(market, order, record)
    began = market.clock.monotonic()
    inputs, decision = await _decide_and_reserve(market, inputs)
    RESERVATION_DURATION.observe(_microseconds(market, began))
    _count(decision)
    if isinstance(decision, BidDecision):
        return await _record_bid(market, item, inputs=inputs, bid=decision)
    await _record_declined(market, inputs, declined=decision, mark=mark)
    return None


async def _decide_and_reserve(market: Market, inputs: DecisionInputs) -> tuple[DecisionInputs, Decision]:
    """The decision with the inputs it was made from. Where a strategy must be asked, the capacity is reserved while the
    strategy works, and its answer is the last input.
    """
    if market.pricing is None:
        return inputs, _reserved(market, decide(inputs))
    fits = decide_at_maximum(inputs)
    if isinstance(fits, Declined):
        return inputs, fits
    request = price_request(inputs.order, fits)
    quote = known_quote(market, request)
    if quote is not None:
        inputs = with_quote(inputs, quote)
        return inputs, _reserved(market, decide(inputs))
    market.ledger.reserve(fits.reservation)
    decision: Decision = Declined(())
    try:
        began = market.clock.monotonic()
        quote = await ask_strategy(market, request)
        PRICING_DURATION.observe(_microseconds(market, began))
        inputs = with_quote(inputs, quote)
        decision = decide(inputs)
    finally:
        if isinstance(decision, Declined):
            release_unleased(market, inputs.order.id)
    return inputs, decision


def _microseconds(market: Market, began: float) -> float:
    return (market.clock.monotonic() - began) * 1e6


def _count(decision: Decision) -> None:
    if isinstance(decision, BidDecision):
        RESERVATIONS.labels("open", "success").inc()
        INVENTORY_REQUESTS.labels("reserve", "create").inc()
    elif any(check in decision.failed for check in _CAPACITY):
        RESERVATIONS.labels("open", "fail").inc()
        INVENTORY_REQUESTS.labels("reserve", "insufficient-capacity").inc()


def _reserved(market: Market, decision: Decision) -> Decision:
    if isinstance(decision, BidDecision):
        market.ledger.reserve(decision.reservation)
    return decision


async def _record_bid(
    market: Market, item: OrderId | Order, *, inputs: DecisionInputs, bid: BidDecision
) -> Judgement | None:
    order = inputs.order.id
    try:
        bids = await _bids(market, item)
        if market.provider in bids:
            _leave_own_bid(market, order, bids[market.provider])
            return None
        recorded = await market.log.record(inputs, bid, now=market.clock.now())
    except BaseException:
        release_unleased(market, order)
        raise
    DECISIONS.labels("bid").inc()
    SHOULD_BID.labels("accept").inc()
    _log_bid(inputs, bid, recorded.number)
    return Judgement(recorded, tuple(bids.values()))


async def _bids(market: Market, item: OrderId | Order) -> Mapping[str, BidState]:
    """Provider → its bid on the order. A provider bids on an order once for ever, also when the bid is closed
    (recordings/chain README §4). For an order of this very block only the own bid is queried: no such order can be
    full.
    """
    if isinstance(item, Order):
        return await market.chain.bidders(item.id)
    own = await market.chain.bid(item.bid_by(market.provider))
    return {} if own is None else {market.provider: own.state}


def _leave_own_bid(market: Market, order: OrderId, state: BidState) -> None:
    """The next full pass adopts an unknown own bid that is open or won, and reserves its capacity."""
    market.book.held[order] = Hold(inf)
    release_unleased(market, order)
    if state in (BidState.OPEN, BidState.ACTIVE):
        market.full_pass_due.set()


async def _record_declined(market: Market, inputs: DecisionInputs, *, declined: Declined, mark: object) -> None:
    """An order that was declined before for reasons of the same kind is not recorded again."""
    order, book = inputs.order.id, market.book
    kind = tuple(_NUMBERS.sub("#", reason) for reason in declined.reasons)
    before, book.declined[order] = book.declined.get(order), Declination(kind, mark)
    if before is not None and before.kind == kind:
        return
    try:
        await market.log.record(inputs, declined, now=market.clock.now())
    except BaseException:
        book.declined.pop(order, None)
        raise
    DECISIONS.labels("declined").inc()
    SHOULD_BID.labels("decline").inc()
    for check in declined.failed:
        DECLINED.labels(check).inc()
    _log.info("market.declined", order=str(order), reasons=list(short_reasons(declined)))


def _log_bid(inputs: DecisionInputs, bid: BidDecision, number: int) -> None:
    """One line: the price with its parts, and the node of every replica."""
    spec = inputs.order.spec
    most = maximum_price(spec)
    lines = [line for line in bid_price_lines(spec, inputs.rules.prices) if line.amount]
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
