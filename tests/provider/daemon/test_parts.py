"""How the parts of the provider are joined."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lease.resources import Price
from lease.spec import GpuPlacement
from provider.daemon.gateway_parts import adopted_placements
from provider.daemon.gateway_process import GatewayProcess
from provider.errors import ChainError
from provider.gateway.config import GatewayConfig
from provider.inventory.capacity import Capacity, Card
from provider.inventory.cards import cards_of
from provider.inventory.snapshot import Inventory, Node
from provider.market.loop import run_market
from provider.protocols.chain import LeaseState, OrderState
from tests.provider.market.world import make_order, make_world
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

A100 = Card("nvidia", "a100", "80Gi", "sxm")
NODE = Node("n0", Capacity(64_000, 2**38, 2**40, 110), (A100,), ("beta2",))


async def test_a_manifest_during_the_start_waits_until_the_cards_of_its_lease_are_reserved_again(
    tmp_path: Path,
) -> None:
    chain = FakeChain()
    chain.add_order(make_order(state=OrderState.ACTIVE, gpus=("vendor/nvidia/model/a100",)))
    world = make_world(MemoryDatabase(tmp_path / "market.db"), chain=chain, inventory=Inventory(nodes=(NODE,)))
    lease, market = world.ours(), world.market
    chain.put_lease(lease, LeaseState.ACTIVE, price=Price("uact", Decimal(1)))
    placements = adopted_placements(
        market, cards_of(world.ledger, market.inventory, overcommit=market.rules.overcommit)
    )
    failures = [ChainError("http://127.0.0.1:26657", "connection refused")]

    def fail_once(name: str) -> None:
        if name == "leases" and failures:
            raise failures.pop()

    chain.before = fail_once
    asked = asyncio.ensure_future(placements(lease))
    loop = asyncio.create_task(run_market(market))
    await world.quiet()
    assert not failures
    assert not asked.done(), "the leases are not read yet, so no reservation says nothing"
    await world.later(10)
    assert asked.done()
    assert asked.result() == {1: GpuPlacement(vendor="nvidia", model="a100")}
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    await world.database.close()


async def test_a_provider_whose_gateway_is_not_started_says_so_once_an_absence(tmp_path: Path) -> None:
    clock = VirtualClock()
    process = GatewayProcess(
        GatewayConfig("akash1provider", tmp_path),
        clock=clock,
        chain_id="local",
        tenants=frozenset,
        troubles=dict,
        calls={},
        child=None,
    )
    with capture_logs() as logs:
        running = asyncio.create_task(process.run())
        await clock.sleep(59)
        assert not logs
        await clock.sleep(3600)
    assert [log["event"] for log in logs] == ["gateway.absent"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
