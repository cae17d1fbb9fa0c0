"""The price of a strategy that is asked for each order. The strategies themselves are in `provider.market.pricing`."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from provider.market.book import Market, Quoted
from provider.market.decision import BidDecision, Decision, DecisionInputs, decide
from provider.market.pricing.quote import PriceRequest, Quote, maximum_price
from provider.protocols.chain import Order

__all__ = ["ask_strategy", "decide_at_maximum", "known_quote", "price_request", "with_quote"]


def decide_at_maximum(inputs: DecisionInputs) -> Decision:
    """The decision as if the strategy had named the order's maximum: whether everything but the price allows a bid."""
    rules = inputs.rules
    most = Quote("", maximum_price(inputs.order.spec))
    notice = replace(rules.notice, premium=Decimal(0))
    return decide(replace(inputs, rules=replace(rules, prices=most, notice=notice)))


def price_request(order: Order, fits: BidDecision) -> PriceRequest:
    """The question to the strategy about an order that `fits`."""
    return PriceRequest(order.id, order.spec, fits.offer, maximum_price(order.spec))


def known_quote(market: Market, request: PriceRequest) -> Quote | None:
    """The strategy's last answer to the same request, if the strategy has not changed since; else None."""
    known = market.book.quoted.get(request.order)
    if known is None or known.mark != market.pricing_mark() or known.asked != request:
        return None
    return known.quote


async def ask_strategy(market: Market, request: PriceRequest) -> Quote:
    """The strategy's answer, which `known_quote` returns from then on."""
    assert market.pricing is not None  # noqa: S101  # the caller looked
    mark = market.pricing_mark()
    quote = await market.pricing(request)
    market.book.quoted[request.order] = Quoted(request, mark, quote)
    market.book.pricing_outage.note(request.order, quote, now=market.clock.now())
    return quote


def with_quote(inputs: DecisionInputs, quote: Quote) -> DecisionInputs:
    """The inputs with the strategy's answer as their prices."""
    return replace(inputs, rules=replace(inputs.rules, prices=quote))
