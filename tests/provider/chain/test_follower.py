"""No block is skipped: lost websockets, dead nodes, restarts, pruned heights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from devnet.chain import SimulatedChain
from provider.bus import CHAIN_BLOCK
from provider.chain.comet import CometChain
from provider.daemon.pump import pump_blocks
from provider.protocols.chain import Block
from provider.protocols.clock import SystemClock
from provider.store.cursors import load_cursor
from tests.provider.chain.world import client, scripted_node, status
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase
from tests.world.patience import PATIENCE_S
from tests.world.virtual import VirtualClock


async def take(blocks: AsyncIterator[Block], count: int, *, seconds: float = PATIENCE_S) -> list[Block]:
    async with asyncio.timeout(seconds):
        return [await anext(blocks) for _ in range(count)]


def heights(blocks: list[Block]) -> list[int]:
    return [block.height for block in blocks]


async def following(chain: CometChain, after: int) -> AsyncIterator[Block]:
    async with aclosing(chain.follow(after=after)) as blocks:  # type: ignore[type-var]
        async for block in blocks:
            yield block


async def test_every_block_comes_once_and_in_order_after_the_last_known_height(node: SimulatedChain) -> None:
    await node.produce(20)
    async with client(node.rpc_address) as chain, aclosing(following(chain, 5)) as blocks:  # type: ignore[type-var]
        assert heights(await take(blocks, 25)) == list(range(6, 31))


async def test_a_websocket_that_is_cut_again_and_again_costs_no_block(node: SimulatedChain) -> None:
    async with client(node.rpc_address) as chain, aclosing(following(chain, 1)) as blocks:  # type: ignore[type-var]
        seen = []
        for _ in range(5):
            seen += await take(blocks, 3)
            await node.drop_websockets()
        assert heights(seen) == list(range(2, 17))


async def test_the_websocket_delivers_a_block_long_before_the_poll() -> None:
    async with (
        SimulatedChain.start(block_seconds=None) as node,
        client(node.rpc_address, poll_interval=30) as chain,
        aclosing(following(chain, node.height)) as blocks,  # type: ignore[type-var]
    ):
        waiting = asyncio.ensure_future(anext(blocks))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await node.produce()
        async with asyncio.timeout(5):
            assert (await waiting).height == node.height


async def test_a_node_that_was_away_is_resumed_at_the_next_height(node: SimulatedChain) -> None:
    async with client(node.rpc_address) as chain, aclosing(following(chain, 1)) as blocks:  # type: ignore[type-var]
        before = await take(blocks, 3)
        await node.restart(down_seconds=0.5)
        after = await take(blocks, 6)
        assert heights(before + after) == list(range(2, 11))


async def test_a_node_that_cuts_connections_is_asked_until_it_answers(node: SimulatedChain) -> None:
    async with client(node.rpc_address, rpc_timeout=1) as chain, aclosing(following(chain, 1)) as blocks:  # type: ignore[type-var]
        await take(blocks, 2)
        node.faults.refuse = True
        waiting = asyncio.ensure_future(take(blocks, 5))
        await asyncio.sleep(0.5)
        node.faults.refuse = False
        assert heights(await waiting) == list(range(4, 9))


async def test_pruned_heights_are_reported_as_a_gap_and_the_rest_follows(node: SimulatedChain) -> None:
    await node.produce(30)
    node.prune(20)
    async with client(node.rpc_address) as chain, aclosing(following(chain, 5)) as blocks:  # type: ignore[type-var]
        first, second = await take(blocks, 2)
        assert (first.height, first.missed_from) == (20, 6)
        assert (second.height, second.missed_from) == (21, 0)


async def test_a_height_whose_results_the_node_discarded_is_a_gap_of_one(node: SimulatedChain) -> None:
    await node.produce(10)
    node.faults.results_missing = {6}
    async with client(node.rpc_address) as chain, aclosing(following(chain, 4)) as blocks:  # type: ignore[type-var]
        found = await take(blocks, 3)
    assert [(block.height, block.missed_from) for block in found] == [(5, 0), (6, 6), (7, 0)]


@pytest.mark.parametrize(
    "bad",
    [
        {"height": "5", "txs_results": "x"},
        {"height": "4", "txs_results": None},
        {"height": None},
        b"<html>gateway</html>",
        b"[]",
        b'{"result":[]}',
        b'{"jsonrpc":"2.0"}',
        b"[" * 100_000,
    ],
    ids=lambda bad: repr(bad)[:30],
)
async def test_an_unusable_answer_is_requested_again_not_skipped(bad: object) -> None:
    tries = 0

    def answer(method: str, params: dict[str, object]) -> object:
        nonlocal tries
        if method == "status":
            return status(6)
        tries += 1
        return bad if params["height"] == "5" and tries < 5 else {"height": params["height"], "txs_results": None}

    async with (
        scripted_node(answer) as address,
        client(address, poll_interval=0.01) as chain,
        aclosing(following(chain, 4)) as blocks,  # type: ignore[type-var]
    ):
        assert heights(await take(blocks, 2)) == [5, 6]


async def test_a_node_below_the_last_height_yields_nothing_until_it_is_past_it() -> None:
    heads = iter([status(3)] * 5 + [status(11)] * 100)

    def answer(method: str, params: dict[str, object]) -> object:
        return next(heads) if method == "status" else {"height": params["height"], "txs_results": None}

    async with (
        scripted_node(answer) as address,
        client(address, poll_interval=0.01) as chain,
        aclosing(following(chain, 10)) as blocks,  # type: ignore[type-var]
    ):
        assert heights(await take(blocks, 1)) == [11]


@pytest.mark.virtual_time
async def test_the_pump_publishes_every_block_and_keeps_the_height() -> None:
    chain, bus, clock = FakeChain(), FakeBus(), VirtualClock()
    database = MemoryDatabase()
    for _ in range(2):  # the second time it goes on where the first stopped
        task = asyncio.create_task(pump_blocks(chain, bus, database=database, clock=clock))
        await clock.settle()
        await chain.push()
        await clock.advance(10)
        assert await load_cursor(database, chain.chain_id) == chain.height
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chain.push()
    await database.close()
    assert [block.height for block in bus.on(CHAIN_BLOCK)] == [101, 102, 103]  # type: ignore[attr-defined]


async def test_leaving_stops_the_websocket_too(node: SimulatedChain) -> None:
    async with client(node.rpc_address) as chain:
        async with aclosing(following(chain, 1)) as blocks:  # type: ignore[type-var]
            await take(blocks, 1)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert "chain websocket" not in names
    assert SystemClock().now() > 0
