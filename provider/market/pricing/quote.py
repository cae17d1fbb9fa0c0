"""The question to a strategy and its answer, the same for every strategy.

A strategy that reads more than the order (a script, a price table with a rate, chance) is asked before the decision,
and its quote is one of the decision's inputs. So the decision stays a pure function, and its record holds the input and
the output of a script.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TypeAlias

from lease.groups import GroupSpec, ResourceUnit
from lease.ids import OrderId
from lease.resources import Price

__all__ = ["PriceLine", "PriceRequest", "Pricing", "Quote", "maximum_price"]


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """`units` as allocated: reduced by overcommit, with the card that was chosen (bidding.md §2.3). `most`: the most
    that the tenant pays.
    """

    order: OrderId
    spec: GroupSpec
    units: tuple[ResourceUnit, ...]
    most: Price


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One part of a price: `quantity` of `what` at `scale` each."""

    what: str
    quantity: Decimal
    scale: Decimal

    @property
    def amount(self) -> Decimal:
        with localcontext(prec=120):
            return self.quantity * self.scale


@dataclass(frozen=True, slots=True)
class Quote:
    """`price` is None with a `problem`, and without one when the strategy was not asked, because the order was declined
    before.

    `lines` are the parts of the price, where the strategy knows them, and `unit` is the unit of their amounts. `given`
    and `said` are the input and the output of a script.
    """

    strategy: str
    price: Price | None = None
    problem: str = ""
    lines: tuple[PriceLine, ...] = ()
    unit: str = ""
    given: str = ""
    said: str = ""


Pricing: TypeAlias = Callable[[PriceRequest], Awaitable[Quote]]
"""A strategy. An order without a price gets a quote with a problem; no exception is raised."""


def maximum_price(spec: GroupSpec) -> Price:
    """The most that the tenant pays: Σ unit price × count, in the denom of the first unit (chain.md §4.2)."""
    with localcontext(prec=120):
        total = sum((unit.price.amount * unit.count for unit in spec.units), Decimal(0))
    return Price(spec.units[0].price.denom if spec.units else "", total)
