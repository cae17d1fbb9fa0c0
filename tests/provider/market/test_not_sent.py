"""A bid that was certainly not sent releases its reservation; a bid without fee budget waits for the budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider.errors import FeesHeldBack, NotSent
from tests.provider.market.test_loop import fail
from tests.provider.market.world import make_order, running

pytestmark = pytest.mark.virtual_time


async def test_a_bid_that_was_not_sent_is_made_soon_and_holds_no_room_meanwhile(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.before = fail("broadcast", NotSent("fake", "mempool is full"))
        world.chain.add_order(make_order())
        await world.block()
        assert (world.chain.sent, world.free_cpu()) == ([], 4000)
        assert "mempool is full" in (await world.decisions())[0].outcome
        await world.later(10)
        assert (world.chain.sent_kinds(), world.free_cpu()) == (["MsgCreateBid"], 3000)


async def test_a_bid_that_the_budget_holds_back_waits_until_there_is_room_for_its_fee(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        held = FeesHeldBack("the day's fees are spent", again_at=world.clock.now() + 1000)
        world.chain.before = fail("broadcast", held, times=99)
        world.chain.add_order(make_order())
        await world.block()
        assert world.free_cpu() == 4000
        await world.later(900)
        assert len(await world.decisions()) == 1, "it is not decided again and again meanwhile"
        world.chain.before = lambda name: None
        await world.later(300)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
