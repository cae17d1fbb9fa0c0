"""The Go provider's tests of its order handler, by their numbers (bidding.md §8, 17–29), as intended.

One unit of the smallest resources twice, at most 46 uact in all, and a strategy that always says 1 uact.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.resources import Attribute, Price, Resources, Volume
from provider.errors import ChainError, PricingError
from provider.market.bid_end import end_bid
from provider.market.bidding import consider
from provider.market.loop import on_block
from provider.market.pricing.quote import PriceRequest, Quote
from provider.market.reconcile import adopt, full_pass, time_out
from provider.protocols.chain import Bid, BidState, Order, OrderState
from tests.provider.market.world import RIVAL, RULES, US, World, make_world, order_id
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

UNIT = ResourceUnit(Resources(1, 10, 2**20, (Volume("default", 5 * 2**20),)), 2, Price("uact", Decimal(23)))
ORDER = Order(order_id(7), OrderState.OPEN, GroupSpec("g", Requirements(), (UNIT,)), 90)


@asynccontextmanager
async def handler(
    folder: Path, *, price: str = "1", problem: str = "", bid: Bid | None = None, **more: object
) -> AsyncIterator[World]:
    database = MemoryDatabase(folder / "market.db")
    chain = FakeChain()
    chain.add_order(ORDER)
    if bid is not None:
        chain.bid_states[bid.id] = bid
    world = make_world(database, chain=chain)

    async def pricing(asked: PriceRequest) -> Quote:
        return Quote("fixed", problem=problem) if problem else Quote("fixed", Price("uact", Decimal(price)))

    market = replace(world.market, pricing=pricing, rules=replace(RULES, prices=Quote("fixed")), **more)  # type: ignore[arg-type]
    try:
        yield replace(world, market=market)
    finally:
        await database.close()


def held(world: World) -> bool:
    return world.ledger.reservation(ORDER.id) is not None


async def happened(world: World) -> None:
    """The block with what the test did, and all that follows from it."""
    tasks: list[asyncio.Task[None]] = []
    on_block(world.market, await world.chain.push(), spawn=lambda one: tasks.append(asyncio.ensure_future(one)))
    await asyncio.gather(*tasks)


def open_bid(created_at: int = 95, state: BidState = BidState.OPEN) -> Bid:
    return Bid(ORDER.id.bid_by(US), state, Price("uact", Decimal(1)), created_at)


async def test_vector_17_a_bid_is_made_and_a_stop_keeps_it(tmp_path: Path) -> None:
    """The Go provider closes its bids when it stops; this provider adopts them again (row stop-keeps-bids)."""
    async with handler(tmp_path) as world:
        await full_pass(world.market)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        message = world.chain.sent[0]
        assert (message.price.denom, message.price.amount) == ("uact", str(10**18))  # type: ignore[attr-defined]
        assert held(world)


@pytest.mark.parametrize("found", [False, True])
async def test_vectors_18_and_25_a_bid_that_nobody_takes_is_closed_and_its_room_is_back(tmp_path, found: bool) -> None:
    async with handler(tmp_path, bid=open_bid(100) if found else None, bid_timeout=6.0) as world:
        await full_pass(world.market)
        assert held(world)
        await world.clock.advance(7)
        await time_out(world.market)
        assert world.chain.sent_kinds()[-1] == "MsgCloseBid"
        assert world.chain.sent_kinds().count("MsgCreateBid") == (0 if found else 1)
        assert not held(world)
        await full_pass(world.market)
        assert world.chain.sent_kinds().count("MsgCreateBid") == (0 if found else 1)  # one bid an order


@pytest.mark.parametrize("block_s", [1.0, 6.0, 30.0])
async def test_a_bid_found_at_the_start_is_as_old_as_the_chains_clock_says(tmp_path: Path, block_s: float) -> None:
    """Blocks of one second: a bid of 10 blocks is 10 s old, not 60."""
    async with handler(tmp_path, bid=open_bid(90), bid_timeout=100.0) as world:
        world.chain.block_s = block_s
        await full_pass(world.market)
        since = world.market.book.placed[ORDER.id].since
        assert world.clock.now() - since == pytest.approx(10 * block_s)


async def test_a_bid_whose_block_the_node_has_no_more_counts_as_new(tmp_path: Path) -> None:
    def pruned(name: str) -> None:
        if name == "block_time":
            raise ChainError("node", "height 90 is not available, lowest height is 95")

    async with handler(tmp_path, bid=open_bid(90), bid_timeout=100.0) as world:
        world.chain.before = pruned
        await full_pass(world.market)
        assert world.market.book.placed[ORDER.id].since == pytest.approx(world.clock.now())


@pytest.mark.parametrize(("price", "problem"), [("9999999999", ""), ("1", "the strategy failed")])
async def test_vectors_19_and_28_without_a_price_nothing_is_sent_and_the_room_is_back(tmp_path, price, problem) -> None:
    async with handler(tmp_path, price=price, problem=problem) as world:
        await full_pass(world.market)
        assert world.chain.sent == []
        assert not held(world)


@pytest.mark.parametrize("when", ["after the bid", "while the strategy thinks"])
async def test_vector_20_an_order_that_closes_gives_its_room_back(tmp_path: Path, when: str) -> None:
    async with handler(tmp_path) as world:
        thinking, done = asyncio.Event(), asyncio.Event()

        async def slow(asked: PriceRequest) -> Quote:
            thinking.set()
            await done.wait()
            return Quote("fixed", asked.most)

        market = replace(world.market, pricing=slow) if when != "after the bid" else world.market
        task = asyncio.create_task(consider(market, ORDER))
        if when != "after the bid":
            await thinking.wait()
            assert held(world)
        else:
            await task
        world.chain.close_order(ORDER.id)
        await end_bid(market, ORDER.id, "the order was closed")
        done.set()
        await task
        assert not held(world)
        assert world.chain.sent_kinds() == (["MsgCreateBid", "MsgCloseBid"] if when == "after the bid" else [])


@pytest.mark.parametrize("found", [False, True])
async def test_vectors_21_and_26_a_lease_of_ours_keeps_its_room_and_sends_nothing(tmp_path: Path, found: bool) -> None:
    async with handler(tmp_path, bid=open_bid() if found else None) as world:
        await full_pass(world.market)
        sent = len(world.chain.sent)
        world.chain.create_lease(ORDER.id.bid_by(US))
        await happened(world)
        assert held(world)
        assert len(world.chain.sent) == sent == (0 if found else 1)


async def test_vector_21_a_lease_of_another_group_changes_nothing(tmp_path: Path) -> None:
    async with handler(tmp_path) as world:
        await full_pass(world.market)
        other = replace(ORDER, id=replace(ORDER.id, gseq=2))
        world.chain.orders[other.id] = other
        world.chain.create_lease(other.id.bid_by(RIVAL))
        await happened(world)
        assert held(world)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_vector_22_an_open_bid_is_taken_up_and_closed_once_with_its_order(tmp_path: Path) -> None:
    async with handler(tmp_path, bid=open_bid()) as world:
        await full_pass(world.market)
        assert held(world)
        assert world.chain.sent == []
        world.chain.close_order(ORDER.id)
        await happened(world)
        assert world.chain.sent_kinds() == ["MsgCloseBid"]
        assert not held(world)


@pytest.mark.parametrize(("created_at", "stale"), [(10, True), (99, False)])
async def test_vector_23_a_bid_found_is_as_old_as_its_height_says(tmp_path: Path, created_at: int, stale: bool) -> None:
    """The Go provider's sign is wrong, so that no old bid is ever stale (bidding.md §1.3)."""
    async with handler(tmp_path, bid=open_bid(created_at), bid_timeout=60.0) as world:
        await adopt(world.market)
        await time_out(world.market)
        assert world.chain.sent_kinds() == (["MsgCloseBid"] if stale else [])
        assert held(world) != stale
        if stale:
            assert world.chain.sent[0].reason == 10002  # type: ignore[attr-defined]


@pytest.mark.parametrize("state", [BidState.LOST, BidState.CLOSED])
async def test_vector_24_a_bid_that_has_ended_is_neither_made_again_nor_closed(tmp_path: Path, state: BidState) -> None:
    async with handler(tmp_path, bid=open_bid(state=state)) as world:
        for _ in range(3):
            await full_pass(world.market)
        assert world.chain.sent == []
        assert not held(world)
        assert world.chain.calls.count("bidders") == 1


async def test_vector_27_the_price_is_the_strategys_exactly(tmp_path: Path) -> None:
    async with handler(tmp_path, price="37") as world:
        await full_pass(world.market)
        assert world.chain.sent[0].price.amount == "37" + "0" * 18  # type: ignore[attr-defined]


async def test_vector_29_an_order_that_does_not_ask_for_the_filters_attribute_is_left(tmp_path: Path) -> None:
    async with handler(tmp_path) as world:
        rules = replace(world.market.rules, order_filter=(Attribute("owner", "me"),))
        await full_pass(replace(world.market, rules=rules))
        assert world.chain.sent == []
        assert not held(world)


async def test_a_strategy_that_breaks_promises_nothing(tmp_path: Path) -> None:
    async with handler(tmp_path) as world:

        async def broken(asked: PriceRequest) -> Quote:
            raise PricingError("bug")

        await consider(replace(world.market, pricing=broken), ORDER)
        assert not held(world)
        assert world.chain.sent == []
        assert world.market.book.busy == set()
