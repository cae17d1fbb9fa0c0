"""Three hundred leases are collected together: each in its time, in a few transactions (field problem F7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from devnet.tenant import messages as tenant_messages
from lease.ids import LeaseId
from provider.chain import messages
from provider.funds.plan import FundsRules
from provider.protocols.chain import LeaseState
from provider.settings import Settings
from tests.provider.chain.direct import bid_id, bid_on, direct, outcomes, ticking
from tests.provider.funds.test_watch import DAY, OWNER, US, World
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

LEASES = tuple(LeaseId(OWNER, dseq, 1, 1, US) for dseq in range(1, 301))
_BATCH = 40


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = MemoryDatabase(tmp_path / "x.db")
    yield World(database)
    await database.close()


def sent(world: World) -> Counter[int]:
    """How often each lease was withdrawn."""
    return Counter(message.id.dseq for message in world.chain.sent)  # type: ignore[attr-defined]


@pytest.mark.parametrize("period", ["24h", "24h0m0s", "86400s"])
def test_a_period_is_the_same_however_it_is_written(period: str) -> None:
    assert Settings(withdrawal_period=period).withdrawal_period == DAY


@pytest.mark.long
async def test_three_hundred_leases_are_each_withdrawn_once_a_period(world: World) -> None:
    for lease in LEASES:
        world.lease(lease, funds=10**9)
    async with world.running():
        await world.blocks(3)
        await world.advance(DAY - 1000)
        assert not world.chain.sent
        await world.advance(2000)
        assert sent(world) == {lease.dseq: 1 for lease in LEASES}
        looks = world.chain.calls.count("escrows")
        await world.advance(DAY - 2000)
        assert set(sent(world).values()) == {1}
    assert looks < 200, "a look is for all leases, not one for each"


async def test_of_three_hundred_leases_those_whose_money_ends_are_settled_in_their_own_block(world: World) -> None:
    """Forty end in each of the blocks 5 to 9, the others live on."""
    world.rules = FundsRules(600, 0, Decimal(0))
    ends = {lease: 5 + index // 40 for index, lease in enumerate(LEASES[:200])}
    for lease in LEASES:
        world.lease(lease, funds=10 * (ends[lease] - 1) if lease in ends else 10**9)
    async with world.running():
        for block in range(1, 12):
            await world.blocks(1)
            await world.advance(120)  # however long a check takes on a busy machine, the pause after it is over
            over = {lease.dseq: 1 for lease, height in ends.items() if height <= block}
            assert sent(world) == over, block
    closed = {lease for lease, found in world.chain.lease_states.items() if found.state is LeaseState.CLOSED}
    assert closed == set(ends)


async def test_three_hundred_withdrawals_share_a_few_transactions() -> None:
    dseqs = range(1, 301)
    async with direct() as chain, ticking(chain.chain):
        for first in range(1, 301, 50):
            await chain.publish(*range(first, first + 50))
        bids = await outcomes(chain.us, [bid_on(dseq) for dseq in dseqs])
        assert not [one for one in bids if isinstance(one, Exception)]
        for first in range(1, 301, 50):
            leases = [tenant_messages.create_lease(bid_id(dseq)) for dseq in range(first, first + 50)]
            await chain.tenant.broadcast(leases)
        await asyncio.sleep(2.5)
        paid = await outcomes(chain.us, [messages.withdraw_lease(bid_id(dseq)) for dseq in dseqs])
        assert not [one for one in paid if isinstance(one, Exception)]
        assert len({one.hash for one in paid}) <= 300 // _BATCH + 2
        assert chain.count("MsgWithdrawLease") == 300
