"""The Go provider's metrics of the market: each counts what its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider.errors import TxRefused
from provider.metrics import REGISTRY
from tests.provider.market.test_loop import fail
from tests.provider.market.world import RIVAL, World, make_order, order_id, running

pytestmark = pytest.mark.virtual_time


class Counted:
    """How much each sample has grown since this object was made."""

    def __init__(self) -> None:
        self._before = samples()

    def grown(self, name: str) -> dict[str, float]:
        """Label values, joined → growth, without those that did not grow."""
        now = {key: value - self._before.get(key, 0) for key, value in samples().items() if key[0] == f"{name}_total"}
        return {" ".join(labels): value for (_, labels), value in now.items() if value}


def samples() -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (one.name, tuple(one.labels.values())): one.value for family in REGISTRY.collect() for one in family.samples
    }


async def bid_on(world: World) -> None:
    world.chain.add_order(make_order())
    await world.block()


async def test_a_bid_counts_as_decided_reserved_and_sent(tmp_path: Path) -> None:
    counted = Counted()
    async with running(tmp_path) as world:
        await bid_on(world)
        assert counted.grown("provider_should_bid") == {"accept": 1}
        assert counted.grown("provider_bid") == {"open success": 1}
        assert counted.grown("provider_reservation") == {"open success": 1}
        assert counted.grown("provider_inventory_requests") == {"reserve create": 1}
        assert counted.grown("provider_order_handler") == {"start": 1, "stop": 1}


async def test_an_order_that_does_not_fit_counts_as_declined(tmp_path: Path) -> None:
    counted = Counted()
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(cpu=8_000))
        await world.block()
        assert counted.grown("provider_should_bid") == {"decline": 1}
        assert counted.grown("provider_reservation") == {"open fail": 1}
        assert counted.grown("provider_bid") == {}


async def test_a_bid_that_the_chain_refuses_counts_as_failed(tmp_path: Path) -> None:
    counted = Counted()
    async with running(tmp_path) as world:
        world.chain.before = fail("broadcast", TxRefused("fake", codespace="market", code=22, log="price invalid"))
        await bid_on(world)
        assert counted.grown("provider_bid") == {"open fail": 1}
        assert counted.grown("lessor_bids_unsent") == {"refused by the chain": 1}
        assert counted.grown("provider_reservation") == {"open success": 1, "close success": 1}


async def test_a_won_lease_and_a_lost_bid_complete_their_orders(tmp_path: Path) -> None:
    counted = Counted()
    async with running(tmp_path) as world:
        await bid_on(world)
        world.chain.create_lease(world.ours())
        await world.block()
        assert counted.grown("provider_order_complete") == {"lease-won": 1}
    counted = Counted()
    (lost := tmp_path / "lost").mkdir()
    async with running(lost) as world:
        await bid_on(world)
        world.chain.create_lease(order_id(7).bid_by(RIVAL))
        await world.block()
        assert counted.grown("provider_order_complete") == {"lease-lost": 1}
        assert counted.grown("provider_bid") == {"open success": 1, "close success": 1}


async def test_a_bid_that_no_tenant_takes_completes_its_order_as_timed_out(tmp_path: Path) -> None:
    counted = Counted()
    async with running(tmp_path) as world:
        await bid_on(world)
        await world.later(410)
        assert counted.grown("provider_order_complete") == {"bid-timeout": 1}
