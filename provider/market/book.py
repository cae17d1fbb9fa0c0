"""What the market loop works with, and what it remembers between blocks. All of the memory can be rebuilt from the
chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from lease.ids import OrderId
from provider.chain.model import ProviderRecord
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory
from provider.market.decision import Rules
from provider.market.quote import Pricing
from provider.protocols import Bus, Chain, Clock
from provider.store import Database
from provider.units import Coin

__all__ = ["Book", "Market", "Placed"]


@dataclass(frozen=True, slots=True)
class Placed:
    """An open bid of ours. `since` is Unix seconds; `decision` its record, None for one found on the chain."""

    since: float
    decision: int | None = None


@dataclass(slots=True)
class Book:
    """`busy`: being decided or sent. `over`: ended while a bid was on its way. `declined`: reasons last recorded,
    not to repeat them.
    """

    record: ProviderRecord | None = None
    placed: dict[OrderId, Placed] = field(default_factory=dict)
    leased: set[OrderId] = field(default_factory=set)
    busy: set[OrderId] = field(default_factory=set)
    over: set[OrderId] = field(default_factory=set)
    declined: dict[OrderId, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Market:
    """`provider` is our address, `inventory` gives the newest picture, `bid_timeout` and `interval` are seconds (0:
    no timeout). `pricing` is asked for each order that fits; without one the scales of `rules` are the price.
    """

    provider: str
    chain: Chain
    bus: Bus
    clock: Clock
    ledger: Ledger
    inventory: Callable[[], Inventory]
    database: Database
    rules: Rules
    deposit: Coin
    bid_timeout: float = 300.0
    interval: float = 60.0
    pricing: Pricing | None = None
    book: Book = field(default_factory=Book)
    look_again: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to have the whole state compared soon: something was missed or failed."""
