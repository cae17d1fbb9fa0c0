"""What an order costs by a strategy that looks at more than the order: a script, a table with a rate, chance.

A quote is made before the decision and is one of its inputs, so the decision stays a pure function and its record holds
what a script was given and what it said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from lease.groups import GroupSpec, ResourceUnit
from lease.ids import OrderId
from lease.resources import Price
from provider.market.pricing.scale import PriceLine

__all__ = ["Asked", "Pricing", "Quote"]


@dataclass(frozen=True, slots=True)
class Asked:
    """`units` as they were allocated: reduced by overcommit, with the card that was chosen (bidding.md §2.3).
    `most`: what the tenant pays at most.
    """

    order: OrderId
    spec: GroupSpec
    units: tuple[ResourceUnit, ...]
    most: Price


@dataclass(frozen=True, slots=True)
class Quote:
    """`price` is None with a `problem`, or when nobody was asked because the order was declined before.

    `lines` say how the price came about where the strategy can tell; `unit` is that of their amounts. `given` and
    `said` are a script's input and output.
    """

    strategy: str
    price: Price | None = None
    problem: str = ""
    lines: tuple[PriceLine, ...] = ()
    unit: str = ""
    given: str = ""
    said: str = ""


Pricing: TypeAlias = Callable[[Asked], Awaitable[Quote]]
"""Asks a strategy. What has no price is a quote with a problem, never an exception."""
