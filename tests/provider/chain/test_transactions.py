"""Intents become transactions: shared, split, merged, ranked, one settlement per deployment at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from devnet.tenant import messages as tenant_messages
from provider.chain import messages
from provider.errors import ChainError, NotSent, TxRefused
from provider.protocols.chain import TxResult
from tests.provider.chain.direct import (  # type: ignore[attr-defined]
    ATTRIBUTES,
    US,
    bid_id,
    bid_on,
    close_on,
    direct,
    outcomes,
    sender,
    signing_key,
    ticking,
)

pytestmark = pytest.mark.virtual_time

TWENTY = range(1, 21)


async def test_twenty_bids_at_once_are_all_in_the_next_block_and_share_their_fee() -> None:
    async with direct(*TWENTY) as world:
        height = world.chain.height
        sending = asyncio.gather(*(world.us.broadcast([bid_on(dseq)]) for dseq in TWENTY))
        while sum(tx.count(b"MsgCreateBid") for tx in world.chain.pending) < 20:
            await asyncio.sleep(0.05)
        await world.chain.produce()
        results = await sending
        assert {result.height for result in results} == {height + 1}
        assert len({result.hash for result in results}) <= 2
        assert {result.fee for result in results} != {results[0].fee.replace("uakt", "0uakt")}
        assert all(int(result.fee.removesuffix("uakt")) < 3000 for result in results)


@pytest.mark.parametrize(("mode", "transactions"), [({"batch": 1}, 20), ({"batch": 7}, 3), ({}, 1)])
async def test_unshared_transactions_are_pending_together_with_consecutive_sequences(
    mode: dict[str, int], transactions: int
) -> None:
    async with direct(*TWENTY, **mode) as world:  # type: ignore[arg-type]
        sending = asyncio.gather(*(world.us.broadcast([bid_on(dseq)]) for dseq in TWENTY))
        while sum(tx.count(b"MsgCreateBid") for tx in world.chain.pending) < 20:
            await asyncio.sleep(0.05)
        await world.chain.produce()
        results = await sending
        assert len({result.height for result in results}) == 1
        assert transactions <= len({result.hash for result in results}) <= transactions + 1


async def test_one_by_one_waits_for_each_block() -> None:
    async with direct(*range(1, 6), batch=1, max_pending=1) as world, ticking(world.chain):
        results = await asyncio.gather(*(world.us.broadcast([bid_on(dseq)]) for dseq in range(1, 6)))
        assert len({result.height for result in results}) == 5


async def test_one_of_twenty_that_fails_in_simulation_costs_the_others_nothing() -> None:
    async with direct(*range(1, 20)) as world, ticking(world.chain):
        found = await outcomes(world.us, [*(bid_on(dseq) for dseq in range(1, 10)), bid_on(99), bid_on(10)])
        assert [type(one) for one in found] == [TxResult] * 9 + [TxRefused, TxResult]
        assert "order not found" in str(found[9])
        assert world.count("MsgCreateBid") == 10


async def test_a_panic_that_names_no_message_is_found_by_halving() -> None:
    async with direct(*TWENTY) as world, ticking(world.chain):
        wishes = [bid_on(dseq, denom="uakt" if dseq in (3, 17) else "uact") for dseq in TWENTY]
        found = await outcomes(world.us, wishes)
        assert [dseq for dseq, one in zip(TWENTY, found, strict=True) if isinstance(one, TxRefused)] == [3, 17]
        assert "recovered" in str(found[2])
        assert sum(isinstance(one, TxResult) for one in found) == 18


async def test_an_intent_of_many_callers_is_sent_once_also_at_another_price() -> None:
    async with direct(1) as world, ticking(world.chain):
        found = await outcomes(world.us, [bid_on(1), bid_on(1), bid_on(1, "49"), bid_on(1)])
        assert len({(one.hash, one.height) for one in found}) == 1
        assert world.count("MsgCreateBid") == 1
        with pytest.raises(TxRefused, match="bid exists"):  # and afterwards it is a new wish
            await world.us.broadcast([bid_on(1)])


async def test_updates_that_differ_are_two_intents() -> None:
    async with direct() as world, ticking(world.chain):
        update = [messages.update_provider(US, host_uri=f"https://p{n}:8443", attributes=ATTRIBUTES) for n in (1, 2)]
        await outcomes(world.us, update)
        assert world.count("MsgUpdateProvider") == 2


async def test_an_intent_that_many_callers_repeat_at_once_after_its_outcome_is_one_again() -> None:
    async with direct() as world, ticking(world.chain):
        update = messages.update_provider(US, host_uri="https://p:8443", attributes=ATTRIBUTES)

        async def twice() -> None:
            await world.us.broadcast([update])
            await world.us.broadcast([update])

        await asyncio.gather(*(twice() for _ in range(3)))
        assert world.count("MsgUpdateProvider") == 2


async def test_a_message_that_fails_in_its_block_fails_only_its_own_intent() -> None:
    """The order is closed between simulation and block: a race that no check beforehand can win."""
    async with direct(*range(1, 6)) as world:
        closing = asyncio.create_task(world.tenant.broadcast([tenant_messages.close_deployment(bid_id(3).deployment)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        sending = asyncio.create_task(outcomes(world.us, [bid_on(dseq) for dseq in range(1, 6)]))
        while len(world.chain.pending) < 2:
            await asyncio.sleep(0.05)
        raced = world.chain.height + 1
        async with ticking(world.chain):
            await closing
            found = await sending
        assert [type(one) for one in found] == [TxResult, TxResult, TxRefused, TxResult, TxResult]
        assert (found[2].codespace, found[2].code) == ("market", 24)
        assert {one.height for one in found if isinstance(one, TxResult)} != {raced}
        assert world.count("MsgCreateBid") == 4


async def test_nothing_settles_one_deployment_twice_in_a_block() -> None:
    """Two groups of one deployment and three deployments: withdrawals and closes, all requested at once."""
    async with direct(1, 2, 3, groups=2) as world, ticking(world.chain):
        places = [(dseq, gseq) for dseq in (1, 2, 3) for gseq in (1, 2)]
        await outcomes(world.us, [bid_on(dseq, gseq=gseq) for dseq, gseq in places])
        leases = [tenant_messages.create_lease(bid_id(dseq, gseq)) for dseq, gseq in places]
        await world.tenant.broadcast(leases)
        await asyncio.sleep(2.5)
        wishes = [messages.withdraw_lease(bid_id(dseq, gseq)) for dseq, gseq in places]
        found = await outcomes(world.us, [*wishes, *(close_on(dseq, gseq=gseq) for dseq, gseq in places)])
        paid_out = [one for one in found[:6] if "payment closed" in str(one)]
        """A close goes first and pays out, so that a later withdrawal has nothing to do."""
        assert [one for one in found if isinstance(one, Exception)] == paid_out
        for transactions in world.blocks().values():
            settled = Counter(
                message.id.dseq  # type: ignore[attr-defined]
                for transaction in transactions
                for message in transaction
                if message.DESCRIPTOR.name in ("MsgWithdrawLease", "MsgCloseBid")
            )
            assert max(settled.values(), default=0) <= 1
        assert len({one.hash for one in found[6:]}) < 6, "different deployments share transactions"


@pytest.mark.parametrize("pair", [[close_on(1), messages.withdraw_lease(bid_id(1))], [close_on(1), close_on(1)], []])
async def test_a_forbidden_transaction_is_refused_before_any_request(pair: list[Any]) -> None:
    async with direct() as world:
        world.node.asked.clear()
        with pytest.raises(NotSent, match=r"settle one deployment twice|nothing to send"):
            await world.us.broadcast(pair)
        assert world.node.asked == []


async def test_closing_a_lease_goes_before_queued_bids() -> None:
    async with direct(*range(1, 8), batch=1, max_pending=1) as world:
        async with ticking(world.chain):
            await world.us.broadcast([bid_on(1)])
        sending = asyncio.create_task(outcomes(world.us, [*(bid_on(dseq) for dseq in range(2, 8)), close_on(1)]))
        async with ticking(world.chain):
            found = await sending
        assert found[-1].height < max(one.height for one in found[:-1])
        assert sum(one.height < found[-1].height for one in found[:-1]) <= 1


async def test_an_intent_without_waiting_callers_is_not_sent() -> None:
    async with direct(1, 2, max_pending=1) as world:
        first = asyncio.create_task(world.us.broadcast([bid_on(1)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        second = asyncio.create_task(world.us.broadcast([bid_on(2)]))
        await asyncio.sleep(0.5)
        second.cancel()
        async with ticking(world.chain):
            await first
            await asyncio.sleep(2.5)
        assert world.count("MsgCreateBid") == 1


async def test_two_daemons_with_one_key_both_succeed_and_log_it(capsys: pytest.CaptureFixture[str]) -> None:
    async with direct(*range(1, 11)) as world, ticking(world.chain):
        other = sender(world.node)
        try:
            for dseq in range(1, 11, 2):
                await world.us.broadcast([bid_on(dseq)])
                await other.broadcast([bid_on(dseq + 1)])
            found = await asyncio.gather(
                outcomes(world.us, [close_on(dseq) for dseq in range(1, 6)]),
                outcomes(other, [close_on(dseq) for dseq in range(6, 11)]),
            )
        finally:
            await other.close()
        assert not [one for part in found for one in part if isinstance(one, Exception)]
        assert world.us.shared_key + other.shared_key >= 2
        told = capsys.readouterr().out
        assert "chain.key_is_shared" in told
        assert "run one provider per key" in told


async def test_without_its_account_nothing_is_sent_and_the_error_has_the_remedy() -> None:
    async with direct() as world:
        nobody = sender(world.node, index=400)
        try:
            with pytest.raises(ChainError, match=f"{signing_key(400).address} does not exist; send it some uakt"):
                await nobody.broadcast([bid_on(1)])
        finally:
            await nobody.close()


async def test_several_leases_of_one_deployment_are_withdrawn_at_once() -> None:
    """The node simulates at the height of its last block, where the settlement before has just taken place."""
    async with direct(1, groups=4) as world, ticking(world.chain):
        await outcomes(world.us, [bid_on(1, gseq=gseq) for gseq in range(1, 5)])
        await world.tenant.broadcast([tenant_messages.create_lease(bid_id(1, gseq)) for gseq in range(1, 5)])
        await asyncio.sleep(2.5)
        found = await outcomes(world.us, [messages.withdraw_lease(bid_id(1, gseq)) for gseq in range(1, 5)])
        assert [type(one) for one in found] == [TxResult] * 4, found
        assert len({one.height for one in found}) == 4
