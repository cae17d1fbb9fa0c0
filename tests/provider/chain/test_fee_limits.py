"""What a transaction may cost: a node that asks for absurd gas has nothing signed, and the reason shows."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from cosmos.tx.v1beta1.service_pb2 import SimulateResponse

from devnet.chain.tx import decode
from lease.resources import Attribute
from provider.chain import messages
from provider.chain.tx.limits import gas_limit
from provider.chain.tx.policy import policy_from
from provider.errors import FeesHeldBack
from provider.metrics import FEES_REFUSED
from provider.protocols.chain import TxResult
from provider.settings import Settings
from provider.units import Coin
from tests.data import rows
from tests.provider.chain.direct import Direct, bid_id, bid_on, close_on, direct, outcomes, sender, ticking
from tests.provider.chain.world import spec

pytestmark = pytest.mark.virtual_time
_OURS = {
    "MsgCloseBid", "MsgCreateBid", "MsgCreateProvider", "MsgLeaseStartReclaim", "MsgUpdateProvider", "MsgWithdrawLease",
}  # fmt: skip


def asks_gas(world: Direct, gas: int) -> None:
    """The node says that every transaction takes so much gas."""

    def after(path: str, answer: Any) -> Any:
        if not path.endswith("Simulate"):
            return answer
        found = SimulateResponse.FromString(answer)
        found.gas_info.gas_used = gas
        return found.SerializeToString()

    world.node.after = after


def refusals() -> float:
    return FEES_REFUSED._value.get()


@pytest.mark.parametrize("gas", [10**12 - 1, 1_000_000_000, 850_000])
async def test_a_node_that_asks_absurd_gas_for_a_bid_makes_us_sign_nothing(gas: int) -> None:
    """37,125 AKT of fee were signed for one bid at 10^12 gas."""
    async with direct(1) as world, ticking(world.chain):
        asks_gas(world, gas)
        before, signed = refusals(), len(list(world.chain.blocks.txs()))
        with pytest.raises(FeesHeldBack, match=r"more than ten times what they usually take \(1250000\)") as raised:
            await world.us.broadcast([bid_on(1)])
        assert raised.value.again_at > 1_700_000_000
        await asyncio.sleep(5)
        assert len(list(world.chain.blocks.txs())) == signed and "broadcast_tx_sync" not in world.node.asked[-3:]
        assert "nothing is signed" in world.us.fee_problem and refusals() == before + 1
        world.node.after = lambda method, answer: answer
        assert isinstance(await world.us.broadcast([bid_on(1)]), TxResult)
        assert world.us.fee_problem == ""


async def test_a_transaction_that_costs_more_than_the_limit_is_not_signed() -> None:
    async with direct(1) as world, ticking(world.chain):
        tight = sender(world.node, fee_limit=1000)
        with pytest.raises(FeesHeldBack, match="more than 1000uakt \\(LESSOR_FEE_LIMIT\\): nothing is signed"):
            await tight.broadcast([bid_on(1)])
        assert "LESSOR_FEE_LIMIT" in tight.fee_problem
        await asyncio.sleep(3600)
        assert tight.fee_problem == "", "nothing was to be signed since: the cause may have ended"
        await tight.close()


async def test_intents_that_cost_too_much_together_go_in_several_transactions() -> None:
    async with direct(*range(1, 13)) as world, ticking(world.chain):
        tight = sender(world.node, fee_limit=15_000)
        found = await outcomes(tight, [bid_on(dseq) for dseq in range(1, 13)])
        assert [type(one) for one in found] == [TxResult] * 12
        assert len({one.hash for one in found}) > 1 and tight.fee_problem == ""
        await tight.close()


def test_the_defaults_limit_a_transaction_and_a_day() -> None:
    policy = policy_from(Settings())
    assert (policy.fee_limit, policy.fee_budget) == (10_000_000, 100_000_000)
    dearest = policy.fees.fee(gas_limit([close_on(dseq) for dseq in range(1, policy.batch + 1)]))
    assert dearest <= policy.fee_limit, "what the gas limit allows can be signed at the usual price"


def test_a_bid_on_the_largest_order_that_is_read_stays_below_the_limit() -> None:
    """Each byte costs 10 gas in the transaction, 30 where it is stored, 3 where it is read (Cosmos SDK)."""
    unit = spec().units[0]
    card = tuple(Attribute(f"vendor/nvidia/model/a100/ram/80Gi/interface/sxm{number}", "true") for number in range(4))
    units = [
        replace(unit, resources=replace(unit.resources, id=number, gpu_attributes=card)) for number in range(1, 101)
    ]
    large = messages.create_bid(bid_id(1), price=unit.price, deposit=Coin("uact", Decimal(1)), offer=units)
    small = bid_on(1)
    gas = policy_from(Settings()).fees.gas(122_900 + (10 + 30 + 3) * (large.ByteSize() - small.ByteSize()))
    assert gas > 10 * 125_000
    assert gas < gas_limit([large]) < 5 * gas
    assert gas_limit([small]) == 10 * 125_000


def test_every_recorded_transaction_stays_far_below_the_limit() -> None:
    seen: set[str] = set()
    for block in rows("recordings/chain/blocks.jsonl"):
        for tx in block["txs"]:
            if not tx["code"]:
                sent = decode(base64.b64decode(tx["bytes"])).messages
                names = {message.DESCRIPTOR.name for message in sent}
                if not names <= _OURS:
                    continue
                seen |= names
                assert 2 * int(tx["gas_used"]) < gas_limit(sent), tx["label"]
    assert seen == _OURS
