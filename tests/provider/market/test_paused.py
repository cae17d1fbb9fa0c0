"""While the wallet cannot pay, no bids are made, each order is declined with the reason, and bidding resumes by
itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provider.errors import CannotPay, TxRefused
from provider.market.bidding import consider
from tests.provider.market.world import make_order, make_world, running
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time
WORDS = "the wallet has 5uakt, a bid, and the fees to close and to withdraw, take 593750uakt"


async def test_no_bid_is_made_while_the_wallet_cannot_pay_and_the_reason_is_written_down(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "x.db")
    world, told = make_world(database), [WORDS]
    market = replace(world.market, paused=lambda: told[0])
    order = make_order()
    world.chain.add_order(order)
    await consider(market, order)
    assert world.chain.sent_kinds() == []
    assert not world.ledger.orders()
    assert [decision.reasons for decision in await world.decisions()] == [(WORDS,)]
    told[0] = ""
    await consider(market, order)
    assert world.chain.sent_kinds() == ["MsgCreateBid"]
    await database.close()


async def test_when_a_pause_ends_the_open_orders_are_decided_about_at_once(tmp_path: Path) -> None:
    reasons = [WORDS]
    async with running(tmp_path) as world:
        object.__setattr__(world.market, "paused", lambda: reasons[0])
        await world.block(world.chain.add_order(make_order()))
        assert world.chain.sent_kinds() == []
        reasons[0] = ""
        await world.later(1)
        await world.block()
        await world.later(3)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_whose_deposit_could_not_be_paid_is_tried_again_each_minute(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "x.db")
    world = make_world(database)
    refusal = CannotPay(TxRefused("fake", codespace="sdk", code=5, log="insufficient funds"), "send it uakt")
    order = make_order()
    world.chain.add_order(order)

    def refuse(name: str) -> None:
        if name == "broadcast":
            raise refusal

    world.chain.before = refuse
    for times in range(1, 6):
        await consider(world.market, order)
        assert world.chain.calls.count("broadcast") == times
        await world.later(60)
    await database.close()
