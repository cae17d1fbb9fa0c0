"""The whole way on a running chain: follower, market, transactions; only the inventory is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from devnet.chain import SimulatedChain
from devnet.tenant import messages as tenant_messages
from provider.bus import LEASE_CHANGED
from provider.chain import messages
from provider.chain.comet import CometChain
from provider.daemon.pump import pump_blocks
from provider.inventory.capacity import Capacity
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, Node
from provider.market.book import Market
from provider.market.decision import Rules
from provider.market.loop import run_market
from provider.market.pricing.scale import ScalePrices
from provider.protocols.chain import BidState
from provider.protocols.clock import SystemClock
from provider.store import open_database
from provider.units import Coin
from tests.provider.chain.world import (
    ATTRIBUTES,
    PROVIDER,
    PROVIDER2,
    TENANT,
    client,
    deployment,
    order,
    signing_key,
    spec,
)
from tests.world.bus import FakeBus
from tests.world.patience import eventually

US, RIVAL = signing_key(PROVIDER).address, signing_key(PROVIDER2).address
INVENTORY = Inventory(nodes=(Node("n0", Capacity(10_000, 2**36, 2**40, 110)),), address_count=40)


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=0.15) as chain:
        yield chain


@asynccontextmanager
async def provider(chain: CometChain, folder: Path) -> AsyncIterator[Market]:
    """Follower and market as the daemon runs them; leaving is a kill."""
    clock, bus = SystemClock(), FakeBus()
    database = await open_database(f"sqlite+aiosqlite:///{folder}/x.db")
    market = Market(
        provider=US,
        chain=chain,
        bus=bus,
        clock=clock,
        ledger=Ledger(US),
        inventory=lambda: INVENTORY,
        database=database,
        rules=Rules(ScalePrices(cpu=Decimal("0.5"), storage={"ephemeral": Decimal(0)})),
        deposit=Coin("uakt", Decimal(500000)),
        interval=1.0,
    )
    tasks = [
        asyncio.create_task(run_market(market)),
        asyncio.create_task(pump_blocks(chain, bus, database=database, clock=clock)),
    ]
    try:
        yield market
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await database.close()


def free_cpu(market: Market) -> int:
    return market.ledger.free(INVENTORY).nodes[0].capacity.cpu_milli


async def publish(tenant: CometChain, *dseqs: int) -> None:
    for dseq in dseqs:
        item = deployment(dseq)
        message = tenant_messages.create_deployment(
            item, groups=(spec(),), version=bytes(32), deposit=(5_000_000, "uact")
        )
        await tenant.broadcast([message])


async def test_orders_of_before_and_after_the_start_are_bid_on_won_and_lost(
    node: SimulatedChain, tmp_path: Path
) -> None:
    async with (
        client(node.rpc_address, index=PROVIDER) as us,
        client(node.rpc_address, index=PROVIDER2) as rival,
        client(node.rpc_address, index=TENANT) as tenant,
    ):
        for chain, address in ((us, US), (rival, RIVAL)):
            uri = f"https://{address[-6:]}.example.com:8443"
            await chain.broadcast([messages.create_provider(address, host_uri=uri, attributes=ATTRIBUTES)])
        await publish(tenant, 1)
        async with provider(us, tmp_path) as market:

            async def open_bids(count: int) -> bool:
                return len(await us.bids(US, BidState.OPEN)) == count

            await eventually(lambda: open_bids(1))
            await publish(tenant, 2, 3)
            await eventually(lambda: open_bids(3))
            assert free_cpu(market) == 9700

            await tenant.broadcast([tenant_messages.create_lease(order(1).bid_by(US))])
            bid = messages.create_bid(
                order(2).bid_by(RIVAL), price=spec().units[0].price, deposit=market.deposit, offer=spec().units
            )
            await rival.broadcast([bid])
            await tenant.broadcast([tenant_messages.create_lease(order(2).bid_by(RIVAL))])
            await tenant.broadcast([tenant_messages.close_deployment(deployment(3))])
            await eventually(lambda: open_bids(0))

            async def only_the_lease_is_promised() -> bool:
                return market.ledger.orders() == (order(1),)

            await eventually(only_the_lease_is_promised)
            assert free_cpu(market) == 9900
            assert isinstance(market.bus, FakeBus)
            assert order(1).bid_by(US) in market.bus.on(LEASE_CHANGED)


async def test_a_killed_provider_takes_up_its_bids_and_leases_again(node: SimulatedChain, tmp_path: Path) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        await us.broadcast([messages.create_provider(US, host_uri="https://p.example.com:8443", attributes=ATTRIBUTES)])
        await publish(tenant, 1, 2)

        async def both() -> bool:
            return len(await us.bids(US, BidState.OPEN)) == 2

        async with provider(us, tmp_path):
            await eventually(both)
        await tenant.broadcast([tenant_messages.create_lease(order(1).bid_by(US))])
        async with provider(us, tmp_path) as market:

            async def all_promised() -> bool:
                return set(market.ledger.orders()) == {order(1), order(2)}

            await eventually(all_promised)
            assert market.book.leased == {order(1)}
            assert set(market.book.placed) == {order(2)}
            await tenant.broadcast([tenant_messages.close_lease(order(1).bid_by(US))])
            second = order(1, oseq=2).bid_by(US)

            async def new_bid() -> bool:
                return await us.bid(second) is not None

            await eventually(new_bid)
