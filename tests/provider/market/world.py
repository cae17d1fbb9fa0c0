"""A market over fakes: a chain, an inventory, a store on disk, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.ids import LeaseId, OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.bus import CHAIN_BLOCK, LEASE_CHANGED
from provider.inventory.capacity import Capacity
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, Node
from provider.market.book import Market
from provider.market.decision import Rules
from provider.market.loop import run_market
from provider.market.pricing.scale import ScalePrices
from provider.market.record.decisions import StoredDecision, orders_decided
from provider.protocols.chain import Event, Order, OrderState, ProviderRecord
from provider.store import Database
from provider.units import Coin
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase
from tests.world.virtual import VirtualClock

US, RIVAL, TENANT = "akash1provider", "akash1rival", "akash1tenant"
MI, GI = 2**20, 2**30
ATTRIBUTES = (
    Attribute("region", "us-west"),
    Attribute("capabilities/storage/1/class", "beta2"),
    Attribute("capabilities/storage/1/persistent", "true"),
    Attribute("capabilities/gpu/vendor/nvidia/model/a100", "true"),
)
RECORD = ProviderRecord(US, "https://provider.example.com:8443", ATTRIBUTES)
PRICES = ScalePrices(cpu=Decimal("0.01"), storage={"ephemeral": Decimal(0), "beta2": Decimal(0)})
RULES = Rules(prices=PRICES)


def order_id(dseq: int, *, gseq: int = 1, oseq: int = 1) -> OrderId:
    return OrderId(TENANT, dseq, gseq, oseq)


def make_spec(
    *,
    cpu: int = 1000,
    count: int = 1,
    price: str = "100",
    denom: str = "uact",
    volumes: tuple[Volume, ...] = (Volume("default", 512 * MI),),
    attributes: tuple[Attribute, ...] | None = None,
    signed_by: SignedBy | None = None,
    gpus: tuple[str, ...] = (),
    ips: int = 0,
) -> GroupSpec:
    resources = Resources(
        id=1,
        cpu_milli=cpu,
        memory_bytes=128 * MI,
        storage=volumes,
        gpu_units=len(gpus),
        endpoints=tuple(Endpoint(EndpointKind.LEASED_IP, number) for number in range(1, ips + 1)),
        gpu_attributes=tuple(Attribute(key, "true") for key in gpus),
    )
    unit = ResourceUnit(resources, count, Price(denom, Decimal(price)))
    return GroupSpec("westcoast", Requirements(signed_by or SignedBy(), attributes), (unit,))


def make_order(dseq: int = 7, *, state: OrderState = OrderState.OPEN, oseq: int = 1, **spec: object) -> Order:
    return Order(order_id(dseq, oseq=oseq), state, make_spec(**spec), 90)  # type: ignore[arg-type]


def make_inventory(cpu: int = 4000, nodes: int = 1) -> Inventory:
    room = Capacity(cpu, 64 * GI, 64 * GI, 110)
    return Inventory(
        nodes=tuple(Node(f"n{index}", room, (), ("beta2",)) for index in range(nodes)), pool_bytes={"beta2": GI}
    )


@dataclass
class World:
    """What a test holds of a running market."""

    market: Market
    chain: FakeChain
    bus: FakeBus
    clock: VirtualClock
    ledger: Ledger
    database: Database
    inventory: Inventory

    async def block(self, *events: Event, missed_from: int = 0) -> None:
        """One more block, and everything that follows from it."""
        self.bus.publish(CHAIN_BLOCK, await self.chain.push(*events, missed_from=missed_from))
        await self.quiet()

    async def quiet(self) -> None:
        """Until nothing is on its way."""
        await self.clock.settle()

    async def later(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def decisions(self, dseq: int = 7) -> list[StoredDecision]:
        return list(await orders_decided(self.database, order_id(dseq)))

    def free_cpu(self) -> int:
        return sum(node.capacity.cpu_milli for node in self.ledger.free(self.inventory).nodes)

    def ours(self, dseq: int = 7) -> LeaseId:
        return order_id(dseq).bid_by(US)

    def changed_leases(self) -> list[object]:
        return self.bus.on(LEASE_CHANGED)


def make_world(database: Database, *, chain: FakeChain | None = None, inventory: Inventory | None = None) -> World:
    chain = chain or FakeChain()
    chain.providers.setdefault(US, RECORD)
    bus, clock, ledger = FakeBus(), VirtualClock(), Ledger(US)
    picture = inventory or make_inventory()
    market = Market(
        provider=US,
        chain=chain,
        bus=bus,
        clock=clock,
        ledger=ledger,
        inventory=lambda: picture,
        database=database,
        rules=RULES,
        deposit=Coin("uakt", Decimal(500000)),
    )
    return World(market, chain, bus, clock, ledger, database, picture)


@asynccontextmanager
async def running(
    folder: Path, *, chain: FakeChain | None = None, inventory: Inventory | None = None
) -> AsyncIterator[World]:
    """A market that did its first pass; ending it is a kill."""
    database = MemoryDatabase(folder / "market.db")
    world = make_world(database, chain=chain, inventory=inventory)
    task = asyncio.create_task(run_market(world.market))
    await world.quiet()
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.close()
