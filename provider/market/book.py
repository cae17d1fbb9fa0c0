"""What the market loop works with, and what it remembers between blocks. All of the memory can be rebuilt from the
chain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lease.ids import OrderId
from lease.resources import Price
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, Snapshot
from provider.market.audits import AuditCache
from provider.market.pricing.outage import PricingOutage
from provider.market.pricing.quote import PriceRequest, Pricing, Quote
from provider.market.record.log import DecisionLog, OutcomeLog
from provider.market.terms import OwnerRules, Rules, TenantHoldings
from provider.protocols import Bus, Chain, Clock
from provider.protocols.chain import MarketParams, ProviderRecord
from provider.store import Database
from provider.units import Coin

__all__ = ["Book", "Declination", "Hold", "Market", "Placed", "Quoted"]

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Placed:
    """An open bid of ours. `since` is Unix seconds; `decision` its record, None for one found on the chain.
    `unknown_at`: the height at which no answer came about its transaction; 0 when one did.
    """

    since: float
    decision: int | None = None
    unknown_at: int = 0


@dataclass(frozen=True, slots=True)
class Declination:
    """What was recorded last of an order (reasons without their numbers), and by which state of everything."""

    kind: tuple[str, ...]
    mark: object


@dataclass(frozen=True, slots=True)
class Hold:
    """An order that was refused by the chain is left alone until then; infinite for one that we can never have."""

    until: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class Quoted:
    """What a strategy said, and what it was asked under which `mark`: the same question is not asked again."""

    asked: PriceRequest
    mark: object
    quote: Quote


@dataclass(slots=True)
class Book:
    """`busy`: being decided or sent. `over`: ended while a bid was on its way. `closing`: timed out, and told so to the
    chain. `height`: the highest that was seen. `declined`, `quoted`, `held`: of open orders. `tried`: when we bid, for
    an hour, less what became a lease. `record_at`: when the record was read.
    """

    record: ProviderRecord | None = None
    record_at: float = 0.0
    params: MarketParams | None = None
    placed: dict[OrderId, Placed] = field(default_factory=dict)
    deposits: dict[OrderId, tuple[Price, ...]] = field(default_factory=dict)
    """Of own bids that the last full pass found open, less those that ended since."""
    leased: set[OrderId] = field(default_factory=set)
    busy: set[OrderId] = field(default_factory=set)
    ended: set[OrderId] = field(default_factory=set)
    closing: set[OrderId] = field(default_factory=set)
    height: int = 0
    declined: dict[OrderId, Declination] = field(default_factory=dict)
    quoted: dict[OrderId, Quoted] = field(default_factory=dict)
    held: dict[OrderId, Hold] = field(default_factory=dict)
    bid_at: dict[str, dict[OrderId, float]] = field(default_factory=dict)
    free: tuple[Snapshot | None, int] = (None, 0)
    """What was free when last looked, and how often it had changed."""
    pricing_outage: PricingOutage = field(default_factory=PricingOutage)
    overused: Mapping[str, str] = field(default_factory=dict)
    """Nodes with more pods than room, as they were told of."""

    def lost(self) -> set[OrderId]:
        """Orders we gave up whose bid still holds a deposit: it is being closed, or could not be (chain.md §14, 1)."""
        return self.deposits.keys() - self.placed.keys() - self.leased - self.busy

    def forget_order(self, order: OrderId) -> None:
        """It is open no more."""
        for memory in (self.declined, self.quoted, self.held):
            memory.pop(order, None)

    def keep_only(self, orders: set[OrderId], *, now: float) -> None:
        """Forget what is remembered of orders that are open no more, and bids of more than an hour ago."""
        for memory in (self.declined, self.quoted, self.held):
            for order in memory.keys() - orders:
                del memory[order]
        for owner, times in list(self.bid_at.items()):
            self.bid_at[owner] = {order: at for order, at in times.items() if now - at < _HOUR}
            if not self.bid_at[owner]:
                del self.bid_at[owner]


@dataclass(frozen=True)
class Market:
    """`provider` is our address, `inventory` gives the newest picture, `bid_timeout` and `interval` are seconds (0: no
    timeout), `bid_blocks` how many heights later a bid that was sent may still come into a block. `pricing` is asked
    for each order that fits; without one the scales of `rules` are the price. While `pricing_mark` says the same, so
    would the strategy to the same question; by default it never does. `owners` gives the newest lists; without it those
    of `rules` hold. `paused` says why no bid is made now, empty when they are.
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
    bid_blocks: int = 20
    interval: float = 60.0
    pricing: Pricing | None = None
    pricing_mark: Callable[[], object] = object
    owners: Callable[[], OwnerRules] | None = None
    paused: Callable[[], str] = str
    attributes_age: float = 600.0
    decisions_kept: int = 100_000
    decisions_age: float = 14 * 86400.0
    book: Book = field(default_factory=Book)
    full_pass_due: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to have the whole state compared soon: something was missed or failed."""

    @cached_property
    def log(self) -> DecisionLog:
        return DecisionLog(self.database)

    @cached_property
    def outcomes(self) -> OutcomeLog:
        return OutcomeLog(self.database)

    @cached_property
    def audits(self) -> AuditCache:
        async def ask(auditor: str) -> object:
            return await self.chain.audited_attributes(provider=self.provider, auditor=auditor)

        return AuditCache(ask, self.clock.now, self.attributes_age)  # type: ignore[arg-type]

    def tenant_holdings(self, order: OrderId) -> TenantHoldings:
        """What this order's tenant holds of us beside it, at this moment. A promise is a bid before it is sent."""
        owner, book = order.owner, self.book
        promised = [one for one in self.ledger.orders() if one.owner == owner and one != order]
        leases = sum(one in book.leased for one in promised)
        since = self.clock.now() - _HOUR
        lately = sum(at > since for one, at in book.bid_at.get(owner, {}).items() if one not in book.leased)
        return TenantHoldings(len(promised) - leases, leases, lately)
