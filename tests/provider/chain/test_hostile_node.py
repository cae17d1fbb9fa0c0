"""Nodes that lose, refuse, lie or fall silent, accounts that cannot pay: nothing is sent twice, and every fault is an
error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest

from devnet.chain.node import Node as SimulatedNode
from devnet.tenant import messages as tenant_messages
from lease.ids import LeaseId
from provider.chain import messages
from provider.chain.rpc import RpcError
from provider.chain.tx.journal import Fate, MemoryJournal
from provider.chain.tx.policy import Fees
from provider.errors import CannotPay, CatchingUp, ChainError, FeesHeldBack, NotSent, StoreError, TxRefused
from provider.protocols.chain import TxResult
from provider.store.transactions import StoredJournal
from provider.units import Coin
from tests.provider.chain.direct import (
    US,
    Direct,
    bid_id,
    bid_on,
    close_on,
    direct,
    outcomes,
    sender,
    signing_key,
    ticking,
)
from tests.provider.chain.world import BROKE
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time


def priced(price: str = "0.025", *, adjustment: float = 1.5) -> Fees:
    return Fees(price=Coin("uakt", Decimal(price)), adjustment=adjustment)


@asynccontextmanager
async def stored(folder: Path) -> AsyncIterator[StoredJournal]:
    database = MemoryDatabase(folder / "x.db")
    try:
        yield StoredJournal(database)
    finally:
        await database.close()


async def many_blocks(world: Direct, count: int) -> None:
    for _ in range(count):
        await world.chain.produce()


def loses(world: Direct) -> list[bytes]:
    """Make the node lose every transaction that it accepts; returns the lost ones."""
    lost: list[bytes] = []

    def take_away(method: str, answer: Any) -> Any:
        if method == "broadcast_tx_sync":
            lost.extend(world.chain._mempool)
            world.chain._mempool.clear()
        return answer

    world.node.after = take_away
    return lost


async def test_a_node_that_accepts_and_never_includes_causes_no_second_bid() -> None:
    async with direct(1, 2, timeout_s=40, timeout_blocks=5) as world:
        lost = loses(world)
        with pytest.raises(ChainError, match=r"accepted but is in no block after 40 s.*nothing in it is sent again"):
            await world.us.broadcast([bid_on(1)])
        again = asyncio.create_task(world.us.broadcast([bid_on(1)]))
        await asyncio.sleep(1)
        assert len(set(lost)) == 1, "the wish joined the one on its way"
        await many_blocks(world, 8)
        with pytest.raises(NotSent, match="in no block up to its last height"):
            await again
        world.node.after = lambda method, answer: answer
        async with ticking(world.chain):
            await world.us.broadcast([bid_on(1)])
            await world.us.broadcast([bid_on(2)])
        assert world.count("MsgCreateBid") == 2


async def test_a_node_that_lost_its_mempool_is_given_the_same_bytes_again() -> None:
    async with direct(1, 2) as world:
        sending = asyncio.create_task(world.us.broadcast([bid_on(1)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        (raw,) = world.chain.pending
        world.chain._mempool.clear()  # as a restart does
        world.chain._seen.clear()
        world.chain.app._pending = world.chain.app._context(world.chain.app.store)
        async with ticking(world.chain, every=5.0):  # its bytes hold for twenty blocks
            found = await sending
            await world.us.broadcast([bid_on(2)])
        block = world.chain.blocks.get(found.height)
        assert block is not None
        assert raw in block.txs


async def test_a_lost_answer_causes_no_second_transaction() -> None:
    async with direct(1, 2) as world, ticking(world.chain):
        failures = iter([True])

        def cut(method: str, answer: Any) -> Any:
            if method == "broadcast_tx_sync" and next(failures, False):
                raise ChainError("direct", "connection lost")
            return answer

        world.node.after = cut
        first = await world.us.broadcast([bid_on(1)])
        second = await world.us.broadcast([bid_on(2)])
        assert second.height > first.height
        assert world.count("MsgCreateBid") == 2
        assert world.us.shared_key == 0


def killed(journal: MemoryJournal | StoredJournal, world: Direct) -> Any:
    """Another process with the same key and store."""
    return sender(world.node, journal=journal, timeout_s=200)


async def test_after_a_kill_a_bid_of_unknown_end_is_not_sent_again(tmp_path: Path) -> None:
    async with stored(tmp_path) as journal, direct(1, journal=journal) as world:
        first = asyncio.create_task(world.us.broadcast([bid_on(1)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        first.cancel()
        await world.us.close()
        second = killed(journal, world)
        wished = asyncio.create_task(second.broadcast([bid_on(1, "49")]))
        await asyncio.sleep(2.5)
        assert len(world.chain.pending) == 1
        async with ticking(world.chain):
            result = await wished
        await second.close()
        assert result.height > 0
        assert world.count("MsgCreateBid") == 1


async def test_after_a_kill_no_settlement_meets_one_of_unknown_end() -> None:
    journal = MemoryJournal()
    async with direct(1, groups=2, journal=journal) as world:
        async with ticking(world.chain):
            await outcomes(world.us, [bid_on(1), bid_on(1, gseq=2)])
        first = asyncio.create_task(world.us.broadcast([close_on(1)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        first.cancel()
        await world.us.close()
        second = killed(journal, world)
        wished = asyncio.create_task(second.broadcast([close_on(1, gseq=2)]))
        await asyncio.sleep(2.5)
        assert len(world.chain.pending) == 1, "the other close waits until the first one's block is known"
        height = world.chain.height + 1
        async with ticking(world.chain):
            assert (await wished).height > height
        await second.close()


@pytest.mark.parametrize("form", ["call", "code"])
async def test_a_full_mempool_is_waited_for(form: str) -> None:
    async with direct(1) as world, ticking(world.chain):
        full = iter([True, True])

        def before(method: str, params: dict[str, Any]) -> Any:
            if method != "broadcast_tx_sync" or not next(full, False):
                return None
            if form == "code":
                return {"code": 20, "codespace": "sdk", "log": "mempool is full"}
            raise RpcError("direct", method, code=-32603, text="mempool is full: number of txs 5000 (max: 5000)")

        world.node.before = before
        assert isinstance(await world.us.broadcast([bid_on(1)]), TxResult)


async def test_a_mempool_that_stays_full_means_that_nothing_was_sent() -> None:
    async with direct(1) as world:

        def full(method: str, params: dict[str, Any]) -> None:
            if method == "broadcast_tx_sync":
                raise RpcError("direct", method, code=-32603, text="mempool is full")

        world.node.before = full
        with pytest.raises(NotSent, match="mempool is full"):
            await world.us.broadcast([bid_on(1)])
        world.node.before = lambda method, params: None
        async with ticking(world.chain):
            await world.us.broadcast([bid_on(1)])


async def test_a_sequence_that_was_used_up_inside_the_block_means_another_try() -> None:
    """Another sender with the same key was faster, and the node that checked the transaction did not know it yet."""
    async with direct(1, 2) as world:
        other = sender(world.node)
        first = asyncio.create_task(world.us.broadcast([bid_on(1)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        ours = world.chain._mempool.pop()
        world.chain.app._pending = world.chain.app._context(world.chain.app.store)
        theirs = asyncio.create_task(other.broadcast([bid_on(2)]))
        while not world.chain.pending:
            await asyncio.sleep(0.05)
        world.chain._mempool.append(ours)
        async with ticking(world.chain):
            assert isinstance(await theirs, TxResult)
            assert isinstance(await first, TxResult)
        await other.close()


async def test_out_of_gas_in_its_block_is_tried_once_with_more() -> None:
    async with direct(1, 2) as world, ticking(world.chain):
        world.us._outbox._policy = sender(world.node, fees=priced(adjustment=0.8))._policy
        found = await outcomes(world.us, [bid_on(1), bid_on(2)])
        assert [type(one) for one in found] == [TxResult, TxResult]
        assert world.count("MsgCreateBid", code=11) == 2


async def test_the_error_for_a_price_below_the_nodes_names_the_setting() -> None:
    async with direct(1) as world:
        poor = sender(world.node, fees=priced("0.001"))
        with pytest.raises(CannotPay, match=r"asks more than AP_GAS_PRICES=0\.001uakt.*insufficient fee"):
            await poor.broadcast([bid_on(1)])
        await poor.close()


async def test_the_error_for_an_account_that_cannot_pay_has_its_balance_and_the_remedy() -> None:
    async with direct(1) as world, ticking(world.chain):
        expensive = sender(world.node, fees=priced("1000000000"))
        with pytest.raises(CannotPay, match=rf"account {US} has \d+uakt and cannot pay the fee; send it uakt"):
            await expensive.broadcast([bid_on(1)])
        await expensive.close()
        bid = bid_on(1)
        bid.deposit.amount.amount = str(10**20)  # type: ignore[attr-defined]
        with pytest.raises(CannotPay, match=rf"account {US} has \d+uakt and cannot pay the deposit"):
            await world.us.broadcast([bid])


async def test_a_granter_is_named_in_the_transaction_and_a_missing_grant_is_reported() -> None:
    async with direct(1) as world:
        granter = signing_key(BROKE).address
        granted = sender(world.node, granter=granter)
        with pytest.raises(CannotPay, match=f"AP_FEE_GRANTER={granter} does not .* pay fees for {US}"):
            await granted.broadcast([bid_on(1)])
        await granted.close()


async def test_a_budget_holds_back_bids_first_closes_last_and_survives_a_restart(tmp_path: Path) -> None:
    async with stored(tmp_path) as journal, direct(*range(1, 9), journal=journal) as world, ticking(world.chain):
        for dseq in range(1, 7):
            await world.us.broadcast([bid_on(dseq)])
        spent = sum(fee for _, fee in await journal.fees(f"lessor-devnet/{US}", denom="uakt", since=0))
        await world.us.close()
        budget = int(spent / 0.75)
        second = sender(world.node, journal=journal, fee_budget=budget)
        found = await outcomes(second, [*(bid_on(dseq) for dseq in range(7, 9)), close_on(1)])
        held, close = found[:-1], found[-1]
        assert {type(one) for one in held} == {FeesHeldBack}
        assert "LESSOR_FEE_BUDGET" in str(held[0])
        assert held[0].again_at > 1_700_000_000
        assert isinstance(close, TxResult), "the share of closes is kept for them"
        await second.close()
        unlimited = sender(world.node, journal=journal)
        assert isinstance(await unlimited.broadcast([bid_on(7)]), TxResult)
        await unlimited.close()


async def test_a_budget_lets_as_many_pass_as_it_can_pay() -> None:
    async with direct(*range(1, 21)) as world, ticking(world.chain):
        await world.us.broadcast([bid_on(1)])
        tight = sender(world.node, fee_budget=40_000, journal=MemoryJournal())
        found = await outcomes(tight, [bid_on(dseq) for dseq in range(2, 21)])
        sent = [one for one in found if isinstance(one, TxResult)]
        assert 0 < len(sent) < 19
        assert {type(one) for one in found} == {TxResult, FeesHeldBack}
        await tight.close()


async def test_what_cannot_be_written_down_is_not_sent() -> None:
    class Full(MemoryJournal):
        async def begin(self, tx: Any) -> None:
            raise StoreError("disk full")

    async with direct(1) as world:
        forgetful = sender(world.node, journal=Full())
        with pytest.raises(NotSent, match="cannot be written down: disk full"):
            await forgetful.broadcast([bid_on(1)])
        assert world.chain.pending == ()
        await forgetful.close()


async def test_every_end_is_written_down() -> None:
    journal = MemoryJournal()
    async with direct(1, journal=journal) as world, ticking(world.chain):
        await world.us.broadcast([bid_on(1)])
        await asyncio.sleep(1)
        assert {tx.fate for tx in journal.sent.values()} == {Fate.DONE}
        assert all(tx.height for tx in journal.sent.values())


async def test_a_node_without_an_index_has_its_blocks_read() -> None:
    async with direct(1, 2, timeout_blocks=20) as world:

        def no_index(method: str, params: dict[str, Any]) -> None:
            if method == "tx":
                raise RpcError("direct", method, code=-32603, text="transaction indexing is disabled")

        world.node.before = no_index
        async with ticking(world.chain):
            assert isinstance(await world.us.broadcast([bid_on(1)]), TxResult)
        taken = loses(world)
        lost = asyncio.create_task(world.us.broadcast([bid_on(2)]))
        while not taken:
            await asyncio.sleep(0.05)
        await many_blocks(world, 24)
        with pytest.raises(NotSent, match="in no block up to its last height"):
            await lost


async def test_nothing_is_sent_through_a_node_that_is_behind() -> None:
    async with direct(1) as world:
        world.chain.faults.catching_up = True
        with pytest.raises(CatchingUp):
            await world.us.broadcast([bid_on(1)])
        world.chain.faults.catching_up = False
        async with ticking(world.chain):
            await world.us.broadcast([bid_on(1)])


SIMULATE = "/cosmos.tx.v1beta1.Service/Simulate"
ACCOUNT = "/cosmos.auth.v1beta1.Query/Account"


@pytest.mark.parametrize("garbage", [b"\xff" * 9, b"", b"\x0a\x0a\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\x7f"])
@pytest.mark.parametrize("path", [SIMULATE, ACCOUNT])
async def test_garbage_for_an_answer_is_an_error_and_sends_nothing(path: str, garbage: bytes) -> None:
    async with direct(1) as world:
        world.us._outbox.account.forget()
        world.node.after = lambda method, answer: garbage if method == path else answer
        with pytest.raises(ChainError):
            await world.us.broadcast([bid_on(1)])
        assert world.chain.pending == ()


@pytest.mark.parametrize(
    "answer", [{}, {"code": "x"}, {"code": inf}, {"code": None, "codespace": 7, "log": None}, {"code": 99}]
)
async def test_garbage_after_sending_is_resolved_by_the_block(answer: dict[str, Any]) -> None:
    async with direct(1) as world, ticking(world.chain):
        world.node.after = lambda method, real: answer if method == "broadcast_tx_sync" else real
        if answer.get("code") == 99:
            with pytest.raises(TxRefused):
                await world.us.broadcast([bid_on(1)])
        else:
            assert isinstance(await world.us.broadcast([bid_on(1)]), TxResult)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"height": "x", "tx_result": {}},
        {"height": "-4", "tx_result": {"code": 0}},
        {"height": "9", "tx_result": {"code": inf}},
        [],
    ],
)
async def test_garbage_about_a_block_proves_nothing(found: Any) -> None:
    async with direct(1) as world, ticking(world.chain):
        lies = iter([True] * 3)
        world.node.after = lambda method, real: found if method == "tx" and next(lies, False) else real
        assert isinstance(await world.us.broadcast([bid_on(1)]), TxResult)


async def test_the_provider_ends_a_lease_with_a_reason_and_reclaims_one() -> None:
    lease = LeaseId(bid_id(1).owner, 1, 1, 1, US)
    assert messages.start_reclaim(lease).id.provider == US  # type: ignore[attr-defined]
    async with direct(1) as world, ticking(world.chain):
        await world.us.broadcast([bid_on(1)])
        await world.tenant.broadcast([tenant_messages.create_lease(bid_id(1))])
        closed = await world.us.broadcast([close_on(1)])
        assert closed.height > 0
    assert isinstance(world.chain, SimulatedNode)
