"""`Market`: what the market loop works with. `Book`: what it remembers between blocks; all of it can be rebuilt from
the chain.
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
from provider.metrics import INVENTORY_REQUESTS, RESERVATIONS
from provider.protocols import Bus, Chain, Clock
from provider.protocols.chain import MarketParams, ProviderRecord
from provider.repeats import Repeats
from provider.store import Database
from provider.units import Coin

__all__ = ["Book", "Declination", "Hold", "Market", "Placed", "Quoted", "release_unleased"]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Placed:
    """An open bid of this provider, since `since` (Unix seconds). `decision`: the number of its record, None for a bid
    found on the chain. `unknown_at`: the height at which its transaction got no answer; 0 when it got one.
    """

    since: float
    decision: int | None = None
    unknown_at: int = 0


@dataclass(frozen=True, slots=True)
class Declination:
    """The last recorded declination of an order. `kind`: the reasons without their numbers. `mark`: of its inputs."""

    kind: tuple[str, ...]
    mark: object


@dataclass(frozen=True, slots=True)
class Hold:
    """An order is not handled before `until` (Unix seconds, infinite: never). `times`: failures in a row."""

    until: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class Quoted:
    """A strategy's answer, the request, and the strategy's `mark` at that time: the same request is not made again."""

    asked: PriceRequest
    mark: object
    quote: Quote


@dataclass(slots=True)
class Book:
    """`record`: the provider as registered, read at `record_at`. `placed`: open bids. `leased`: orders that became
    leases. `busy`: orders that are being decided or whose bid is being sent. `ended`: those of them that ended
    meanwhile. `closing`: bids that timed out and are being closed. `height`: the highest block seen. `declined`,
    `quoted`, `held`: open orders. `bid_at`: owner → order → when a bid was sent, for an hour, without the orders that
    became leases.
    """

    record: ProviderRecord | None = None
    record_at: float = 0.0
    params: MarketParams | None = None
    placed: dict[OrderId, Placed] = field(default_factory=dict)
    deposits: dict[OrderId, tuple[Price, ...]] = field(default_factory=dict)
    """The deposits of own bids that the last full pass found open, without the bids that ended since."""
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
    """The free capacity when it was last read, and the number of its changes."""
    pricing_outage: PricingOutage = field(default_factory=PricingOutage)
    overused: Mapping[str, str] = field(default_factory=dict)
    """Nodes whose pods request more than the node has, as last logged."""
    pooled: Mapping[str, int] = field(default_factory=dict)
    """MetalLB's pools over addresses that may be leased, as last logged."""
    pass_problem: str = ""
    """Why the last full pass failed; empty when it succeeded."""
    paused: bool = False
    """Whether no bids were made at the last block."""
    unmatched: tuple[str, ...] = ()
    """What the record advertises and no node has, and the reverse, as last logged."""

    def lost(self) -> set[OrderId]:
        """Orders given up whose bid still holds a deposit: the bid is being closed, or could not be (chain.md
        §14, 1).
        """
        return self.deposits.keys() - self.placed.keys() - self.leased - self.busy

    def forget_order(self, order: OrderId) -> None:
        """The order is no longer open."""
        for memory in (self.declined, self.quoted, self.held):
            memory.pop(order, None)

    def keep_only(self, orders: set[OrderId], *, now: float) -> None:
        """Forget all orders but the open ones, `orders`, and the times of bids older than an hour."""
        for memory in (self.declined, self.quoted, self.held):
            for order in memory.keys() - orders:
                del memory[order]
        for owner, times in list(self.bid_at.items()):
            self.bid_at[owner] = {order: at for order, at in times.items() if now - at < _HOUR_S}
            if not self.bid_at[owner]:
                del self.bid_at[owner]


@dataclass(eq=False)
class Market:
    """`provider`: the provider's address. `inventory` returns the newest inventory. `bid_timeout` (0: none) and
    `interval`, the time between two full passes, are seconds. `bid_blocks`: within how many blocks a bid that was sent
    may still be included. `pricing` is asked for each order that fits; without it the scales in `rules` are the price.
    While `pricing_mark` returns an equal value, the strategy would answer the same request the same way; by default it
    never does. `owners` returns the newest tenant lists; without it those in `rules` apply. `paused` returns why no bid
    is made now, empty while bids are made. What comes from settings is replaced when they are read again.
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
    """Set after an event was missed or an operation failed: the next full pass comes soon."""
    adopted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the leases and bids of the last run have their reservations again."""
    passed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when every order that was open at the start has been handled."""

    @cached_property
    def log(self) -> DecisionLog:
        return DecisionLog(self.database)

    @cached_property
    def repeats(self) -> Repeats:
        return Repeats(self.clock.monotonic)

    @cached_property
    def outcomes(self) -> OutcomeLog:
        return OutcomeLog(self.database)

    @cached_property
    def audits(self) -> AuditCache:
        async def ask(auditor: str) -> object:
            return await self.chain.audited_attributes(provider=self.provider, auditor=auditor)

        return AuditCache(ask, self.clock.now, self.attributes_age)  # type: ignore[arg-type]

    def tenant_holdings(self, order: OrderId) -> TenantHoldings:
        """What the tenant of `order` holds besides it. A bid counts from its reservation on, before it is sent."""
        owner, book = order.owner, self.book
        promised = [one for one in self.ledger.orders() if one.owner == owner and one != order]
        leases = sum(one in book.leased for one in promised)
        since = self.clock.now() - _HOUR_S
        lately = sum(at > since for one, at in book.bid_at.get(owner, {}).items() if one not in book.leased)
        return TenantHoldings(len(promised) - leases, leases, lately)


def release_unleased(market: Market, order: OrderId) -> None:
    """Release the reservation of `order`, unless the order became a lease meanwhile: then the lease holds it."""
    if order in market.book.leased:
        return
    if market.ledger.release(order):
        RESERVATIONS.labels("close", "success").inc()
        INVENTORY_REQUESTS.labels("unreserve", "destroyed").inc()
    else:
        INVENTORY_REQUESTS.labels("unreserve", "not-found").inc()
