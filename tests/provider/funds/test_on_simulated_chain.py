"""Money on a running chain: escrow is read over the wire, a lease is collected, an empty one is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from devnet.chain import SimulatedChain
from devnet.tenant import messages as tenant_messages
from provider.chain import messages
from provider.chain.comet import CometChain
from provider.daemon.pump import pump_blocks
from provider.funds.escrow import runs_out_at
from provider.funds.plan import FundsRules
from provider.funds.wallet import WalletRules
from provider.funds.watch import FUNDS_ESCROW, Funds, FundsWatch
from provider.protocols.chain import LeaseState
from provider.protocols.clock import SystemClock
from provider.store import Database, open_database
from provider.store.money import earned_between
from provider.units import Coin
from tests.provider.chain.world import (
    ATTRIBUTES,
    PROVIDER,
    TENANT,
    client,
    deployment,
    order,
    signing_key,
    spec,
)  # fmt: skip
from tests.world.bus import FakeBus
from tests.world.patience import eventually

US = signing_key(PROVIDER).address
DEPOSIT = Coin("uakt", Decimal(500_000))


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        yield chain


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    yield opened
    await opened.close()


async def lease(us: CometChain, tenant: CometChain, dseq: int, *, price: str = "100") -> None:
    """A deployment with 5 ACT, a bid at its full price, and the lease."""
    group = spec(price)
    item, bid = deployment(dseq), order(dseq).bid_by(US)
    create = tenant_messages.create_deployment(item, groups=(group,), version=bytes(32), deposit=(5_000_000, "uact"))
    await tenant.broadcast([create])
    offer = messages.create_bid(bid, price=group.units[0].price, deposit=DEPOSIT, offer=group.units)
    await us.broadcast([offer])
    await tenant.broadcast([tenant_messages.create_lease(bid)])


def watch(us: CometChain, bus: FakeBus, database: Database, *, threshold: int) -> FundsWatch:
    parts = Funds(
        provider=US,
        chain=us,
        bus=bus,
        clock=SystemClock(),
        database=database,
        rules=FundsRules(interval_s=1.0, period_s=0, threshold=Decimal(threshold)),
        wallet=WalletRules(Coin("uakt", Decimal("0.025")), 1.5, DEPOSIT, 0),
        engaged=lambda: 0,
    )
    return FundsWatch(parts)


async def test_a_lease_is_collected_and_one_without_money_is_closed_by_the_chain(
    node: SimulatedChain, database: Database
) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        await us.broadcast([messages.create_provider(US, host_uri="https://p.example.com:8443", attributes=ATTRIBUTES)])
        bus = FakeBus()
        await lease(us, tenant, 1)
        rich, poor = order(1).bid_by(US), order(2).bid_by(US)

        escrows = await us.escrows([deployment(1), deployment(2), deployment(99)])
        assert set(escrows) == {deployment(1)}
        price = spec().units[0].price
        ends = runs_out_at(escrows[deployment(1)])
        assert ends == escrows[deployment(1)].settled_at + int(Decimal(5_000_000) / price.amount) + 1
        assert (await us.balances(US))["uakt"] > 0

        loop = watch(us, bus, database, threshold=int(price.amount) * 5)
        tasks = [
            asyncio.create_task(loop.run()),
            asyncio.create_task(pump_blocks(us, bus, database=database, clock=SystemClock())),
        ]
        try:

            async def collected() -> bool:
                found = await us.lease_payment(rich)
                return found is not None and found.payment is not None and found.payment.withdrawn > 0

            await eventually(collected)
            await lease(us, tenant, 2, price="1000000")

            async def closed() -> bool:
                found = await us.lease_payment(poor)
                return found is not None and found.lease.state is LeaseState.INSUFFICIENT_FUNDS

            # a check one block late withdraws by threshold first, and then the lease pauses for a minute
            await eventually(closed, seconds=120)

            async def final() -> bool:
                told = bus.on(FUNDS_ESCROW)[-1]
                return isinstance(told, dict) and set(told) == {rich}

            await eventually(final)
            assert loop.wallet is not None
            assert loop.wallet.bids
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert [item.lease.id for item in await us.lease_payments(provider=US, states=[LeaseState.ACTIVE])] == [rich]
        today = datetime.now(UTC).date()
        earned = await earned_between(database, today - timedelta(days=1), today)
        assert sum(item.amount for item in earned if item.lease == poor) == 5_000_000
