"""A block's own events are delivered like those of its transactions; nothing unreadable stops the follower."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

from devnet.chain import SimulatedChain
from provider.chain import events
from provider.protocols.chain import Block
from tests.provider.chain.world import client, order, scripted_node, status

LEASE = order(7).bid_by("akash1p")


def closed(value: str = "") -> dict[str, Any]:
    fields = {"owner": LEASE.owner, "dseq": "7", "gseq": 1, "oseq": 1, "provider": LEASE.provider, "bseq": 0}
    attributes = [
        {"key": "id", "value": value or json.dumps(fields)},
        {"key": "reason", "value": '"lease_closed_reason_insufficient_funds"'},
        {"key": "mode", "value": "EndBlock"},
    ]
    return {"type": events.LEASE_CLOSED, "attributes": attributes}


async def followed(results: dict[str, dict[str, Any]], count: int) -> list[Block]:
    def answer(method: str, params: dict[str, Any]) -> Any:
        empty = {"txs_results": None}
        return status(8) if method == "status" else {"height": params["height"], **results.get(params["height"], empty)}

    async with (
        scripted_node(answer) as address,
        client(address, poll_interval=0.01) as chain,
        aclosing(chain.follow(after=4)) as blocks,  # type: ignore[type-var]
        asyncio.timeout(30),
    ):
        return [await anext(blocks) for _ in range(count)]


async def test_a_lease_that_the_block_itself_closed_is_reported() -> None:
    """No transaction closed it: the chain did at the end of a block (field problem F1)."""
    blocks = await followed({"5": {"txs_results": None, "finalize_block_events": [closed()]}}, 1)
    (event,) = blocks[0].events
    assert (event.type, events.lease_id(event)) == (events.LEASE_CLOSED, LEASE)
    assert event.fields["reason"] == "lease_closed_reason_insufficient_funds"
    assert "mode" not in event.fields


async def test_a_block_that_no_node_gives_readably_becomes_a_gap_and_the_next_ones_follow() -> None:
    """Waiting for it for ever would be worse: after a gap, subscribers read the state."""
    blocks = await followed({"6": {"txs_results": None, "finalize_block_events": [closed("{")]}}, 3)
    assert [(block.height, block.missed_from) for block in blocks] == [(5, 0), (6, 6), (7, 0)]
    assert blocks[1].events == ()


async def test_the_simulated_chain_reports_the_same_block_events_as_a_real_node(node: SimulatedChain) -> None:
    """Epochs and the state of burning and minting, at the first block (recordings/chain README §15)."""
    async with (
        client(node.rpc_address, poll_interval=0.01) as chain,
        aclosing(chain.follow(after=0)) as blocks,  # type: ignore[type-var]
        asyncio.timeout(30),
    ):
        first = await anext(blocks)
    assert [event.type for event in first.events] == [
        *["akash.epochs.v1beta1.EventEpochStart"] * 4,
        "akash.bme.v1.EventMintStatusChange",
    ]
    assert first.events[-1].fields["new_status"] == "mint_status_halt_oracle"
