"""A node between its start and its first block: what it answers at height 0 is no answer, and no refusal."""

from __future__ import annotations

import asyncio

import pytest

from devnet.chain import SimulatedChain
from provider.errors import ChainError, NotSent, TxRefused
from provider.protocols.chain import LeaseState, TxResult
from tests.provider.chain.direct import bid_id, bid_on, direct, ticking
from tests.provider.chain.world import client


async def test_nothing_is_read_at_height_0(node: SimulatedChain) -> None:
    async with client(node.rpc_address) as chain:
        await chain.head()
        node.faults.before_first_block = True
        for ask in (
            chain.head(),
            chain.lease(bid_id(1)),
            chain.leases(provider=bid_id(1).provider, states=[LeaseState.ACTIVE]),
            chain.balances(bid_id(1).provider, denoms={"uakt"}),
        ):
            with pytest.raises(ChainError, match="height 0"):
                await ask
        node.faults.before_first_block = False
        assert (await chain.head()).height > 0


@pytest.mark.virtual_time
async def test_a_simulation_at_height_0_is_no_refusal() -> None:
    async with direct(1) as world, ticking(world.chain):
        world.chain.faults.before_first_block = True
        world.us._outbox.account.sequence = 1
        with pytest.raises(NotSent) as raised:
            await world.us.broadcast([bid_on(1)])
        assert not isinstance(raised.value.__cause__, TxRefused) and "no block yet" in str(raised.value)
        world.chain.faults.before_first_block = False
        world.us._outbox.account.forget()
        assert isinstance(await asyncio.wait_for(world.us.broadcast([bid_on(1)]), 60), TxResult)
