"""What the chain would refuse whatever was decided is not sent: a deposit too small, an order with too many bids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from lease.ids import OrderId
from lease.resources import Price
from provider.market.bidding import consider
from provider.market.limits import deposit_reason, full_reason
from provider.market.reconcile import full_pass
from provider.protocols.chain import Bid, BidState, MarketParams
from provider.units import parse_coin
from tests.provider.market.world import World, make_order, make_world, order_id
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

OPEN, ACTIVE, LOST, CLOSED = BidState
LEAST = {"uact": 500_000, "uakt": 5_000_000}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = MemoryDatabase(tmp_path / "market.db")
    yield make_world(database)
    await database.close()


def fill(world: World, order: OrderId, states: list[BidState]) -> None:
    """Bids of strangers."""
    for number, state in enumerate(states):
        bid = order.bid_by(f"akash1rival{number}")
        world.chain.bid_states[bid] = Bid(bid, state, Price("uact", Decimal(1)), 90)


@pytest.mark.parametrize(
    ("deposit", "params", "refused"),
    [
        ("5000000uakt", MarketParams(LEAST, 20), False),
        ("5000001uakt", MarketParams(LEAST, 20), False),
        ("4999999uakt", MarketParams(LEAST, 20), True),
        ("500000uact", MarketParams(LEAST, 20), False),
        ("9000000000uusdc", MarketParams(LEAST, 20), True),
        ("1uakt", MarketParams({}, 20), False),  # a chain that tells none
        ("1uakt", None, False),  # not asked yet
    ],
)
def test_a_deposit_is_compared_with_the_least_of_its_denom(
    deposit: str, params: MarketParams | None, refused: bool
) -> None:
    told = deposit_reason(parse_coin(deposit), params)
    assert bool(told) == refused
    if refused:
        assert told == (
            "the chain requires a bid deposit of at least 500000uact or 5000000uakt, "
            f"AP_BID_DEPOSIT is {deposit}: no bids are made until it is changed"
        )


@pytest.mark.parametrize(
    ("states", "most", "full"),
    [
        ([OPEN] * 3, 3, False),  # recordings/chain: the fourth gets in, the fifth does not
        ([OPEN, ACTIVE, CLOSED, OPEN], 3, True),
        ([OPEN, ACTIVE, LOST, LOST, LOST], 3, False),
        ([OPEN] * 600, 0, False),
        ([], 3, False),
    ],
)
def test_an_order_takes_one_bid_more_than_the_parameter(states: list[BidState], most: int, full: bool) -> None:
    assert bool(full_reason(states, MarketParams({}, most))) == full
    assert full_reason(states, None) == ""


async def test_nothing_is_bid_while_the_deposit_is_too_small_and_the_reason_is_written_down(world: World) -> None:
    world.chain.params = MarketParams(LEAST, 20)
    world.chain.add_order(make_order())
    for _ in range(3):
        await full_pass(world.market)
    assert (world.chain.sent, world.ledger.orders()) == ([], ())
    (decision,) = await world.decisions()
    assert decision.verdict == "declined"
    assert "AP_BID_DEPOSIT is 500000uakt" in decision.reasons[0]
    world.chain.params = MarketParams({"uakt": 500_000}, 20)
    await full_pass(world.market)
    assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_a_full_order_is_left_alone_with_its_reason_and_its_room_is_free(world: World) -> None:
    world.chain.params = MarketParams({"uakt": 500_000}, 3)
    world.chain.add_order(make_order())
    fill(world, order_id(7), [OPEN, OPEN, CLOSED, OPEN])
    for _ in range(3):
        await full_pass(world.market)
    assert (world.chain.sent, world.free_cpu()) == ([], 4000)
    (decision,) = await world.decisions()
    assert decision.outcome == "not sent: the order has 4 bids and the chain takes no more (order_max_bids 3)"
    world.chain.params = MarketParams({"uakt": 500_000}, 20)
    await world.clock.advance(3601)
    await full_pass(world.market)
    assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_that_has_room_for_one_more_bid_gets_ours(world: World) -> None:
    world.chain.params = MarketParams({"uakt": 500_000}, 3)
    world.chain.add_order(make_order())
    fill(world, order_id(7), [OPEN, OPEN, LOST, OPEN])
    await full_pass(world.market)
    assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_of_this_very_block_costs_no_list_of_its_bids(world: World) -> None:
    world.chain.add_order(make_order())
    await consider(world.market, order_id(7))
    assert world.chain.sent_kinds() == ["MsgCreateBid"]
    assert (world.chain.calls.count("bid"), world.chain.calls.count("bidders")) == (1, 0)
