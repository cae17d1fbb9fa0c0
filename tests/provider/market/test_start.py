"""The first minutes: live orders do not wait for the list of old ones (field problem A14)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import update

from lease.ids import OrderId
from provider.errors import ChainError
from provider.protocols.chain import Order
from provider.store.tables import decision_inputs
from tests.provider.market.world import make_inventory, make_order, running
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time


class SlowList(FakeChain):
    """Its list of open orders comes when `listed` is set; `failing` more times it does not come at all."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = asyncio.Event()
        self.failing = 0

    async def open_orders(self) -> Sequence[Order]:
        await self.listed.wait()
        self.failing -= 1
        if self.failing >= 0:
            raise ChainError("fake", "query Orders: no answer within 10 s")
        return await super().open_orders()


async def test_a_new_order_is_bid_on_while_the_list_of_old_ones_is_still_on_its_way(tmp_path: Path) -> None:
    chain = SlowList()
    chain.add_order(make_order(1))
    chain.pending.clear()
    async with running(tmp_path, chain=chain) as world:
        chain.add_order(make_order(2))
        await world.block()
        assert [message.id.dseq for message in chain.sent] == [2]  # type: ignore[attr-defined]
        chain.failing = 3
        chain.listed.set()
        await world.later(10)
        assert [message.id.dseq for message in chain.sent] == [2, 1]  # type: ignore[attr-defined]
        assert chain.calls.count("open_orders") == 1


_LEASES = 40


async def _leases_won(folder: Path, chain: FakeChain) -> None:
    """So many leases of a provider that has ended since."""
    async with running(folder, chain=chain, inventory=make_inventory(64_000)) as world:
        for dseq in range(1, _LEASES + 1):
            chain.add_order(make_order(dseq))
        await world.block()
        for dseq in range(1, _LEASES + 1):
            chain.create_lease(world.ours(dseq))
        await world.block()
    chain.calls.clear()


def _until_bid(chain: FakeChain) -> list[str]:
    return chain.calls[: chain.calls.index("broadcast")]


async def test_the_first_bid_waits_for_one_query_a_list_whatever_the_number_of_leases(tmp_path: Path) -> None:
    chain = FakeChain()
    await _leases_won(tmp_path, chain)
    chain.add_order(make_order(99))
    async with running(tmp_path, chain=chain, inventory=make_inventory(64_000)) as world:
        assert [message.id.dseq for message in chain.sent][_LEASES:] == [99]  # type: ignore[attr-defined]
        assert world.free_cpu() == 64_000 - (_LEASES + 1) * 1000
        assert max(Counter(_until_bid(chain)).values()) <= 2, _until_bid(chain)


async def test_groups_that_the_store_has_lost_are_asked_for_side_by_side(tmp_path: Path) -> None:
    chain = FakeChain()
    await _leases_won(tmp_path, chain)
    chain.add_order(make_order(99))
    asked, most = 0, 0
    answer = chain.order

    async def order(item: OrderId) -> Order | None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0.1)
        asked -= 1
        return await answer(item)

    chain.order = order  # type: ignore[assignment]
    (tmp_path / "another").mkdir()
    async with running(tmp_path / "another", chain=chain, inventory=make_inventory(64_000)) as world:
        await world.later(1)
        assert chain.sent[-1].id.dseq == 99  # type: ignore[attr-defined]
        assert world.free_cpu() == 64_000 - (_LEASES + 1) * 1000
        assert most == 16


async def test_capacity_that_is_rented_already_is_not_offered_again_at_a_start(tmp_path: Path) -> None:
    chain = FakeChain()
    await _leases_won(tmp_path, chain)
    chain.add_order(make_order(99))
    async with running(tmp_path, chain=chain, inventory=make_inventory(_LEASES * 1000 + 500)) as world:
        await world.later(70)
        assert len(chain.sent) == _LEASES
        assert world.free_cpu() == 500


async def test_a_group_in_the_store_that_cannot_be_read_is_asked_for(tmp_path: Path) -> None:
    chain = FakeChain()
    await _leases_won(tmp_path, chain)
    database = MemoryDatabase(tmp_path / "market.db")
    async with database.writing() as connection:
        await connection.execute(update(decision_inputs).values(body=b"no zlib"))
    await database.close()
    async with running(tmp_path, chain=chain, inventory=make_inventory(64_000)) as world:
        assert chain.calls.count("order") == _LEASES
        assert world.free_cpu() == 64_000 - _LEASES * 1000


async def test_a_start_asks_a_distant_node_for_all_at_once(tmp_path: Path) -> None:
    chain = FakeChain()
    async with running(tmp_path, chain=chain, inventory=make_inventory(64_000)) as world:
        for dseq in range(1, 21):
            chain.add_order(make_order(dseq))
        await world.block()
    chain.calls.clear()
    first = ("head", "provider", "market_params", "bids")
    chain.gates = {name: asyncio.Event() for name in (*first, "order")}
    async with running(tmp_path, chain=chain, inventory=make_inventory(64_000)) as world:
        assert sorted(chain.calls) == sorted(first), "none waits for the answer to another"
        for name in first:
            chain.gates[name].set()
        await world.later(1)
        assert chain.calls.count("order") == 16, "open bids are adopted side by side"
        chain.gates["order"].set()
        await world.later(1)
        assert world.free_cpu() == 64_000 - 20 * 1000
        assert len(chain.sent) == 20, "no order is bid on twice"
