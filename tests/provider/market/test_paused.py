"""While the wallet cannot pay, no bids are made, each order is declined with the reason, and bidding resumes by
itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from provider.market.bidding import consider
from tests.provider.market.world import make_order, make_world
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
