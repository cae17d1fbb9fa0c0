"""The price of a bid: what the strategy says, with the premium for notice, at most the order's maximum."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

from lease.groups import GroupSpec
from lease.resources import Price
from provider.errors import PricingError
from provider.market.pricing.quote import PriceLine, Quote, maximum_price
from provider.market.pricing.scale import ScalePrices, price_lines, scale_price
from provider.protocols.chain import Order

__all__ = ["bid_price", "bid_price_lines"]

_PLACES = Decimal("1e-18")


def bid_price(
    order: Order, prices: ScalePrices | Quote, *, notice_premium: Decimal
) -> tuple[Price | None, tuple[str, ...]]:
    """The price per block, or the reasons why there is none; `(None, ())` when the strategy was not asked.

    The scales are computed here; any other strategy was asked before, and its quote is `prices`. A price equal to the
    maximum is allowed (bidding.md §1.5).
    """
    spec = order.spec
    try:
        price = prices.price if isinstance(prices, Quote) else scale_price(spec, prices)
    except PricingError as error:
        return None, (str(error),)
    if price is None:
        return None, ((prices.problem,) if isinstance(prices, Quote) and prices.problem else ())
    most = maximum_price(spec)
    if price.denom != most.denom:
        return None, (f"the bid price is in {price.denom}, the order's maximum in {most.denom}",)
    price = _with_premium(price, order, notice_premium)
    if price.amount > most.amount:
        return None, (
            f"the bid price {price.amount:f}{price.denom} is above the order's maximum {most.amount:f}{most.denom}",
        )
    return price, ()


def bid_price_lines(spec: GroupSpec, prices: ScalePrices | Quote) -> tuple[PriceLine, ...]:
    """The parts of the price; none for a strategy that names a sum only. Raises `PricingError` as `price_lines`."""
    return prices.lines if isinstance(prices, Quote) else price_lines(spec, prices)


def _with_premium(price: Price, order: Order, premium: Decimal) -> Price:
    """An order that asks for notice pays the premium, `premium` percent. Every price has at most 18 decimals."""
    if order.reclamation_ns is None or not premium:
        return price
    with localcontext(prec=120):
        amount = (price.amount * (100 + premium) / 100).quantize(_PLACES, rounding=ROUND_HALF_UP)
    return Price(price.denom, amount.normalize())
