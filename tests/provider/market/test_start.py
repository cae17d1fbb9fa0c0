"""The first minutes: live orders do not wait for the list of old ones (field problem A14)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from provider.errors import ChainError
from provider.protocols.chain import Order
from tests.provider.market.world import make_order, running
from tests.world.chain import FakeChain

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
