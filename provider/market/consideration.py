"""One order, from sight to decision and promise.

Between looking at what is free and promising it nothing is awaited, so two orders never get the same room.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import structlog

from lease.ids import OrderId
from provider.inventory.snapshot import Snapshot
from provider.market.book import Declination, Market, Quoted
from provider.market.decision import Audits, Bid, Decision, Declined, decide, lines_of
from provider.market.eligibility import MAX_AUDITORS, auditors_of
from provider.market.limits import deposit_reason
from provider.market.pricing.quote import Asked, Quote
from provider.market.pricing.scale import maximum_price
from provider.market.record.decisions import DecisionInputs, Recorded, short_reasons
from provider.market.terms import Rules
from provider.metrics import DECISIONS
from provider.protocols.chain import Order, ProviderRecord

__all__ = [
    "current_record",
    "inputs_for",
    "made_up_mind",
    "reach_decision",
    "record_decision",
    "room_for_any_price",
]

_log = structlog.get_logger(__name__)
_NUMBERS = re.compile(r"\d+")


async def current_record(market: Market) -> ProviderRecord | None:
    """Our own record, read again when it may be too old; None when the chain does not know us."""
    book, now = market.book, market.clock.now()
    if book.record is None or now - book.record_at >= market.attributes_age:
        book.record = await market.chain.provider(market.provider)
        book.record_at = now
    return book.record


def current_rules(market: Market) -> Rules:
    """With the lists of tenants, the wallet and the chain's parameters as they are now."""
    rules, params = market.rules, market.book.params
    if paused := market.paused() or deposit_reason(market.deposit, params):
        rules = replace(rules, paused=paused)
    if market.owners is not None and market.owners() != rules.owners:
        rules = replace(rules, owners=market.owners())
    if params is not None and rules.notice.window_s:
        least, most = params.min_reclamation_ns, params.max_reclamation_ns
        rules = replace(rules, notice=replace(rules.notice, least_ns=least, most_ns=most))
    return rules


def made_up_mind(market: Market, order: OrderId) -> bool:
    """Declined, and nothing that the decision looks at has changed since."""
    declined = market.book.declined.get(order)
    return declined is not None and declined.mark == _mark(market, order)


def _free_now(market: Market) -> tuple[Snapshot, int]:
    """What is free, and a number that grows with every change of it."""
    free, (seen, revision) = market.ledger.free(market.inventory()), market.book.free
    if free is not seen:
        market.book.free = (free, revision + 1)
    return free, market.book.free[1]


def _mark(market: Market, order: OrderId) -> object:
    owners = market.owners() if market.owners is not None else None
    priced = market.pricing_mark() if market.pricing is not None else None
    chain = (market.book.record, market.book.params, market.audits.changes)
    return (_free_now(market)[1], chain, owners, priced, market.tenant(order), bool(market.paused()))


async def reach_decision(
    market: Market, order: Order, record: ProviderRecord
) -> tuple[DecisionInputs, Decision, object]:
    """Look, decide and promise in one step; the last is the mark of the state that was looked at. Where a strategy
    must be asked, its room is promised while it thinks, and its word is the last input of the decision.
    """
    inputs, mark = await inputs_for(market, order, record)
    decision = _decide(inputs) if market.pricing is None else room_for_any_price(inputs)
    if isinstance(decision, Bid) and market.pricing is not None:
        return (*await _priced(market, inputs, decision), mark)
    if isinstance(decision, Bid):
        market.ledger.promise(decision.reservation)
    return inputs, decision, mark


async def inputs_for(market: Market, order: Order, record: ProviderRecord) -> tuple[DecisionInputs, object]:
    """All that a decision about this order looks at, and the mark of the state they were taken from. Nothing is awaited
    after what is free was looked at.
    """
    audits = await _audits(market, order)
    inputs = DecisionInputs(order, record, _free_now(market)[0], current_rules(market), audits, market.tenant(order.id))
    return inputs, _mark(market, order.id)


async def _audits(market: Market, order: Order) -> Audits:
    auditors = auditors_of(order.spec)
    if len(auditors) > MAX_AUDITORS:
        return {}
    return {auditor: await market.audits.signed_by(auditor) for auditor in auditors}


def _decide(inputs: DecisionInputs) -> Decision:
    return decide(
        inputs.order,
        inputs.record,
        snapshot=inputs.snapshot,
        rules=inputs.rules,
        audits=inputs.audits,
        tenant=inputs.tenant,
    )


def room_for_any_price(inputs: DecisionInputs) -> Decision:
    """As if the strategy had said the order's maximum: does everything else allow a bid?"""
    rules = inputs.rules
    most = Quote("", maximum_price(inputs.order.spec))
    notice = replace(rules.notice, premium=Decimal(0))
    return _decide(replace(inputs, rules=replace(rules, prices=most, notice=notice)))


async def _priced(market: Market, inputs: DecisionInputs, fits: Bid) -> tuple[DecisionInputs, Decision]:
    """The same question under the same mark has its answer already: no script is run again for it, and nothing is
    promised meanwhile.
    """
    order, mark = inputs.order, market.pricing_mark()
    asked = Asked(order.id, order.spec, fits.offer, maximum_price(order.spec))
    known = market.book.quoted.get(order.id)
    decision: Decision = Declined(())
    if known is None or known.mark != mark or known.asked != asked:
        market.ledger.promise(fits.reservation)
        try:
            known = await _ask(market, asked, mark)
            inputs, decision = _with_quote(inputs, known.quote)
        finally:
            if isinstance(decision, Declined):
                market.ledger.release(order.id)
        return inputs, decision
    inputs, decision = _with_quote(inputs, known.quote)
    if isinstance(decision, Bid):
        market.ledger.promise(decision.reservation)
    return inputs, decision


def _with_quote(inputs: DecisionInputs, quote: Quote) -> tuple[DecisionInputs, Decision]:
    inputs = replace(inputs, rules=replace(inputs.rules, prices=quote))
    return inputs, _decide(inputs)


async def _ask(market: Market, asked: Asked, mark: object) -> Quoted:
    assert market.pricing is not None  # noqa: S101  # the caller looked
    quoted = Quoted(asked, mark, await market.pricing(asked))
    market.book.quoted[asked.order] = quoted
    market.book.unpriced.heard(asked.order, quoted.quote, now=market.clock.now())
    return quoted


async def record_decision(market: Market, inputs: DecisionInputs, decision: Decision, mark: object) -> Recorded | None:
    """The proof that it is written down; None for a refusal of the same kind as the last one of this order, which is
    not written again.
    """
    order, book = inputs.order.id, market.book
    if isinstance(decision, Bid):
        recorded = await market.log.record(inputs, decision, now=market.clock.now())
        DECISIONS.labels("bid").inc()
        _tell(inputs, decision, recorded.number)
        return recorded
    kind = tuple(_NUMBERS.sub("#", reason) for reason in decision.reasons)
    before, book.declined[order] = book.declined.get(order), Declination(kind, mark)
    if before is not None and before.kind == kind:
        return None
    try:
        recorded = await market.log.record(inputs, decision, now=market.clock.now())
    except BaseException:
        book.declined.pop(order, None)
        raise
    DECISIONS.labels("declined").inc()
    _log.info("market.declined", order=str(order), reasons=list(short_reasons(decision)))
    return recorded


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
