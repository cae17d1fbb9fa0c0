"""The strategy `randomRange`: a random price above the cost of the memory (bidding.md §2.2)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from decimal import Decimal, localcontext

from lease.groups import GroupSpec
from lease.resources import Price
from provider.market.pricing.quote import PriceRequest, Pricing, Quote, maximum_price

__all__ = ["random_price", "random_pricing"]

_GIB = 2**30


def random_price(spec: GroupSpec, *, below: Callable[[int], int] = secrets.randbelow) -> Price:
    """A price from the cost of the memory up to a hundredth of the way to the maximum. The Go provider divides once too
    often, which is kept (bidding.md §9). `below(n)` returns a number of 0…n-1.
    """
    most = maximum_price(spec)
    memory = sum(unit.resources.memory_bytes * unit.count for unit in spec.units)
    with localcontext(prec=120):
        low = Decimal(memory * 50 // _GIB)
        high = min(Decimal(memory // 1024), most.amount)
        low, high = low or Decimal(1), high or Decimal(1)
        if low == high:
            return Price(most.denom, high)
        steps = max(1, int((high - low) * 10000))
        return Price(most.denom, low + Decimal(below(steps)) / 10000 / 100)


def random_pricing() -> Pricing:
    async def ask(request: PriceRequest) -> Quote:
        return Quote("randomRange", random_price(request.spec))

    return ask
