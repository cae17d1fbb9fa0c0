"""A market over fakes in virtual time: orders, tenants, pods, restarts, and events that are lost, late or repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any, cast

from sqlalchemy import select

from lease.groups import GroupSpec
from lease.ids import LeaseId, OrderId
from provider.bus import CHAIN_BLOCK, MemoryBus
from provider.chain.codec import lease_id_from_pb
from provider.errors import ChainError
from provider.inventory.capacity import Overcommit
from provider.inventory.ledger import Ledger
from provider.inventory.reservation import Reservation
from provider.market.book import Market
from provider.market.decision import Rules
from provider.market.loop import run_market
from provider.market.pricing.scale import ScalePrices
from provider.protocols.chain import BidState, Event, Message, Order, OrderState, ProviderRecord, TxResult
from provider.store.tables import decisions
from provider.units import Coin
from tests.laws.orders.cluster import RandomCluster
from tests.laws.orders.drawing import ATTRIBUTES, CLASSES, draw_spec
from tests.laws.orders.law import free_is_what_is_left, overlapping
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase
from tests.world.faults import Faults
from tests.world.virtual import VirtualClock

__all__ = ["RIVAL", "US", "Chain", "Made", "WatchedLedger", "World"]

US, RIVAL = "akash1provider", "akash1rival"
_OWNERS = ("akash1tenant", "akash1other")
_PRICES = ScalePrices(cpu=Decimal("0.01"), storage={"ephemeral": Decimal(0), **dict.fromkeys(CLASSES, Decimal(0))})
_GRACE_S = 240.0
"""Within this the market knows of an end, by an event or by a full pass (60 s) that the chain answers."""
_BID_TIMEOUT_S = 300.0


class Chain(FakeChain):
    """Slow, sometimes away, sometimes without an answer after a message took effect. `on_bid` is called for each
    bid.
    """

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults
        self.on_bid: Any = lambda order, message: None
        self.calm = False
        self.before = self._maybe_away

    def _maybe_away(self, name: str) -> None:
        if self._faults.dead or (not self.calm and self._faults.random.random() < 0.01):
            raise ChainError(self.address, "no answer")

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        await asyncio.sleep(self._faults.random.uniform(0.001, 3.0))
        for message in messages:
            if message.DESCRIPTOR.name == "MsgCreateBid":
                self.on_bid(lease_id_from_pb(cast(Any, message).id).order, message)
        result = await super().broadcast(messages)
        await asyncio.sleep(self._faults.random.uniform(0.001, 3.0))
        if not self.calm and self._faults.random.random() < 0.03:
            raise ChainError(self.address, "connection lost after the transaction was sent")
        return result


class WatchedLedger(Ledger):
    """The ledger; `on_reserve` is called for each new reservation, but not for a rebuilt one, which may not fit."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self.on_reserve: Callable[[Reservation], None] = lambda reservation: None
        self._rebuilding = False

    def reserve(self, reservation: Reservation) -> None:
        if not self._rebuilding:
            self.on_reserve(reservation)
        super().reserve(reservation)

    def rebuild(self, order: OrderId, spec: GroupSpec, **where: Any) -> Reservation:
        self._rebuilding = True
        try:
            return super().rebuild(order, spec, **where)
        finally:
            self._rebuilding = False


@dataclass(frozen=True)
class Made:
    """The parts of a market; a planted defect is another ledger, chain, database or cluster."""

    ledger: type[WatchedLedger] = WatchedLedger
    chain: type[Chain] = Chain
    database: type[MemoryDatabase] = MemoryDatabase
    cluster: type[RandomCluster] = RandomCluster


@dataclass
class World:
    seed: int
    made: Made = field(default_factory=Made)

    def __post_init__(self) -> None:
        self.random, self.faults, self.clock = Random(self.seed), Faults(self.seed), VirtualClock()
        self.chain = self.made.chain(self.faults)
        self.chain.providers[US] = ProviderRecord(US, "https://p.example.com:8443", ATTRIBUTES)
        self.chain.on_bid = self._bid
        self.cluster = self.made.cluster(self.random, US)
        self.database = self.made.database(refuses=self.faults.refuses_writes)
        self.overcommit = Overcommit(*self.random.choice(((0, 0, 0), (0, 0, 0), (50, 25, 10))))
        self.orders = 0
        self.facts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.held: dict[OrderId, Reservation] = {}
        """The reservation of each order with an own bid or lease, as last seen."""
        self.ended_at: dict[OrderId, float] = {}
        self.late: list[Event] = []
        self.start()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def start(self) -> None:
        self.bus, self.ledger, self.began = MemoryBus(), self.made.ledger(US), self.now
        self.ledger.on_reserve = self._reserved
        self.market = Market(
            provider=US,
            chain=self.chain,
            bus=self.bus,
            clock=self.clock,
            ledger=self.ledger,
            inventory=lambda: self.cluster.inventory,
            database=self.database,
            rules=Rules(prices=_PRICES, overcommit=self.overcommit),
            deposit=Coin("uakt", Decimal(500000)),
            bid_timeout=_BID_TIMEOUT_S,
            decisions_kept=500,
        )
        self.task = asyncio.get_running_loop().create_task(run_market(self.market))

    async def kill(self) -> None:
        self.faults.dead = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.faults.dead = False

    async def restart(self) -> None:
        """A restart at any moment; sometimes the disk is lost too."""
        await self.kill()
        if self.random.random() < 0.3:
            self.database.empty()
        self.facts["restarts"] += 1
        self.start()

    def new_order(self) -> None:
        self.orders += 1
        order = OrderId(self.random.choice(_OWNERS), self.orders, 1, 1)
        self.chain.add_order(Order(order, OrderState.OPEN, draw_spec(self.random), self.chain.height))

    async def block(self) -> None:
        """The events since the last block; an event may be lost, with or without notice, come later, or come twice."""
        events, self.late = [*self.late, *self.chain.pending], []
        self.chain.pending, missed = [], 0
        sent = []
        for event in events:
            match self.random.choices(("sent", "lost", "late", "twice"), (90, 3, 4, 3))[0]:
                case "lost":
                    missed = self.chain.height + 1 if self.random.random() < 0.5 else missed
                    self.facts["lost events"] += 1
                case "late":
                    self.late.append(event)
                    self.facts["late events"] += 1
                case how:
                    sent += [event] * (2 if how == "twice" else 1)
                    self.facts["repeated events"] += how == "twice"
        self.bus.publish(CHAIN_BLOCK, await self.chain.push(*sent, missed_from=missed))

    def living(self) -> set[OrderId]:
        """Orders with an own open bid that can still be accepted, or an own active lease."""
        bids, orders = self.chain.bid_states.values(), self.chain.orders
        mine = [bid.id.order for bid in bids if bid.state is BidState.OPEN and bid.id.provider == US]
        open_ = {order for order in mine if orders[order].state is OrderState.OPEN}
        return open_ | {lease.order for lease in self.alive()}

    def alive(self) -> list[LeaseId]:
        states = self.chain.lease_states
        return [lease for lease, found in states.items() if lease.provider == US and not found.state.ended]

    def ended(self, order: OrderId) -> None:
        self.ended_at[order] = self.now

    def check(self) -> None:
        """Checks the rules after each step."""
        if self.task.done():
            why = None if self.task.cancelled() else self.task.exception()
            self.problems.append(f"rule 6: the market ended by itself: {why!r} {getattr(why, 'exceptions', '')}")
        reservations = self._reservations()
        found, exact = free_is_what_is_left(self.cluster, self.ledger.free(self.cluster.inventory), reservations)
        self.facts.update(checks=1, exact=exact)
        self.problems += found
        living = self.living()
        for reservation in reservations:
            self.held[reservation.order] = reservation
            if not self._accounted_for(reservation.order, living):
                self.problems.append(f"rule 4: order {reservation.order.dseq} has only a reservation")
        kept = living | self.market.book.busy
        self.held = {order: held for order, held in self.held.items() if order in kept}

    def _accounted_for(self, order: OrderId, living: set[OrderId]) -> bool:
        """Whether the order has a bid, a lease or a running decision, or ended so recently that the market may not
        know.
        """
        if order in living or order in self.market.book.busy:
            return True
        placed = self.market.book.placed.get(order)
        since = placed.since - self.clock.offset if placed is not None else self.began
        return self.now - max(self.ended_at.get(order, 0.0), since) < _GRACE_S

    def forgotten(self) -> list[str]:
        """After everything settled: each bid and lease has its reservation, no other order has, no ended order has a
        bid.
        """
        living, have = self.living(), set(self.ledger.orders())
        found = [f"rule 4: nothing is reserved for order {order.dseq}" for order in living - have]
        found += [f"rule 4: order {order.dseq} is still reserved" for order in have - living]
        return found + [
            f"rule 7: the bid for order {bid.id.dseq} is open, the order is not"
            for bid in self.chain.bid_states.values()
            if bid.id.provider == US
            and bid.state is BidState.OPEN
            and self.chain.orders[bid.id.order].state is not OrderState.OPEN
        ]

    def _bid(self, order: OrderId, message: Any) -> None:
        """Rules 4 and 7 at the moment when a bid arrives."""
        self.facts["bids"] += 1
        row = select(decisions.c.verdict).where(decisions.c.dseq == str(order.dseq))
        if "bid" not in {found.verdict for found in self.database.rows(row)}:
            self.problems.append(f"rule 7: a bid for order {order.dseq} without a decision record")
        if order.bid_by(US) in self.chain.bid_states:
            self.problems.append(f"rule 7: a second bid for order {order.dseq}")
        fresh = self.ledger.reservation(order)
        if fresh is None and order not in self.market.book.ended:
            self.problems.append(f"rule 4: a bid for order {order.dseq}, and nothing is reserved")
        offered = {unit.resources.id: unit.count for unit in message.resources_offer}
        if fresh is not None and offered != {unit.resources.id: unit.count for unit in fresh.offer}:
            self.problems.append(f"rule 4: order {order.dseq} is offered {offered}, reserved is {fresh.offer}")

    def _reserved(self, fresh: Reservation) -> None:
        """Rule 4 at the moment of a reservation, beside the bids and leases on the chain or on their way to it."""
        living = self.living()
        held = {order: one for order, one in self.held.items() if order in living}
        held |= {one.order: one for one in self._reservations()}
        held.pop(fresh.order, None)
        self.problems += overlapping(self.cluster, fresh, held.values())

    def _reservations(self) -> list[Reservation]:
        return [found for order in self.ledger.orders() if (found := self.ledger.reservation(order))]
