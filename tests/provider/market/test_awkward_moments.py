"""Starts with a node that is behind, ends that wait for their block, missing answers, answers of a late node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from lease.groups import SignedBy
from provider.bus import CHAIN_BLOCK
from provider.chain import events
from provider.errors import ChainError, FeesHeldBack, TxRefused
from provider.market.loop import run_market
from provider.market.pricing.quote import PriceRequest, Quote
from provider.protocols.chain import Bid, BidState, Event, Head, Message, TxResult
from tests.provider.market.test_loop import fail
from tests.provider.market.world import ATTRIBUTES, RIVAL, US, World, make_order, make_world, order_id, running
from tests.world.chain import FakeChain
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time


def known_bid(chain: FakeChain, dseq: int, *, cpu: int = 1000, created_at: int = 95) -> None:
    """An own open bid on an open order, of which no event comes any more."""
    order = make_order(dseq, cpu=cpu)
    bid = order.id.bid_by(US)
    chain.add_order(order)
    chain.pending.clear()
    chain.bid_states[bid] = Bid(bid, BidState.OPEN, order.spec.units[0].price, created_at)


class Silent(FakeChain):
    """While `silent`, its node takes transactions and never answers what became of them."""

    silent = False

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        if self.silent:
            raise ChainError(self.address, "accepted but is in no block after 30 s")
        return await super().broadcast(messages)


async def test_nothing_is_decided_before_a_node_that_was_behind_has_told_what_is_ours(tmp_path: Path) -> None:
    chain = FakeChain()
    known_bid(chain, 7, cpu=3000)
    chain.catching_up = True
    async with running(tmp_path, chain=chain) as world:
        chain.catching_up = False
        chain.add_order(make_order(8, cpu=3000))
        await world.block()
        await world.later(15)
        assert (chain.sent, world.free_cpu()) == ([], 1000), "the room of the open bid was not given a second time"
        chain.add_order(make_order(9))
        await world.block()
        assert [message.id.dseq for message in chain.sent] == [9]  # type: ignore[attr-defined]


@pytest.mark.parametrize("moment", ["bids", "leases", "order"])
async def test_a_bid_that_is_taken_while_a_start_asks_what_is_ours_keeps_its_room(tmp_path: Path, moment: str) -> None:
    """Whichever question comes first, no answer may miss it twice (simulation seed 8527: three leases, two cards)."""
    chain = FakeChain()
    known_bid(chain, 7, cpu=3000)
    chain.add_order(make_order(8, cpu=3000))
    chain.pending.clear()
    bid = order_id(7).bid_by(US)

    def taken(name: str) -> None:
        if name == moment and bid not in chain.lease_states:
            chain.create_lease(bid)
            chain.pending.clear()

    chain.before = taken
    async with running(tmp_path, chain=chain) as world:
        await world.later(1)
        assert bid in chain.lease_states
        assert (chain.sent, world.free_cpu()) == ([], 1000)


class SlowHead(FakeChain):
    """Returns its height when `told` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    async def head(self) -> Head:
        await self.told.wait()
        return await super().head()


@pytest.mark.parametrize("missed_from", [0, 50])
async def test_open_orders_are_looked_at_at_once_whatever_the_blocks_of_before_say(
    tmp_path: Path, missed_from: int
) -> None:
    """The provider's record changed while the provider was down, or heights are pruned; the first blocks say so."""
    chain, database = SlowHead(), MemoryDatabase(tmp_path / "x.db")
    chain.add_order(make_order())
    chain.pending.clear()
    world = make_world(database, chain=chain)
    task = asyncio.create_task(run_market(world.market))
    await world.quiet()
    updated = Event(events.PROVIDER_UPDATED, {"owner": US})
    world.bus.publish(CHAIN_BLOCK, await chain.push(updated, missed_from=missed_from))
    chain.told.set()
    await world.quiet()
    await world.later(1)
    sent = chain.sent_kinds()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await database.close()
    assert sent == ["MsgCreateBid"]


async def test_closing_what_is_stale_delays_no_bid_at_a_start(tmp_path: Path) -> None:
    """Each close waits for its block; they share it, and nothing else waits for them."""
    chain = FakeChain(height=1000)
    for dseq in range(1, 5):
        known_bid(chain, dseq, cpu=100, created_at=100)
    chain.close_order(order_id(1))
    chain.close_order(order_id(2))
    chain.add_order(make_order(7))
    chain.pending.clear()
    chain.gate = asyncio.Event()
    database = MemoryDatabase(tmp_path / "x.db")
    world = make_world(database, chain=chain)
    task = asyncio.create_task(run_market(world.market))
    await world.clock.advance(6)
    sent = sorted((message.DESCRIPTOR.name, message.id.dseq) for message in chain.sent)  # type: ignore[attr-defined]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await database.close()
    assert sent == [*(("MsgCloseBid", dseq) for dseq in range(1, 5)), ("MsgCreateBid", 7)]


async def timed_out(world: World) -> None:
    world.chain.add_order(make_order(7, cpu=3000))
    await world.block()
    world.chain.gate = asyncio.Event()
    await world.clock.advance(310)
    assert world.chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid"]


async def test_a_bid_that_timed_out_keeps_its_room_until_its_end_is_in_a_block(tmp_path: Path) -> None:
    """Until then the tenant may take it."""
    async with running(tmp_path) as world:
        await timed_out(world)
        assert world.free_cpu() == 1000
        assert world.chain.gate is not None
        world.chain.gate.set()
        await world.quiet()
        assert world.free_cpu() == 4000
        assert world.chain.sent_kinds().count("MsgCloseBid") == 1
        assert (await world.decisions())[0].outcome == "no lease within the bid timeout"


async def test_a_bid_that_is_taken_while_it_is_closed_keeps_its_room(tmp_path: Path) -> None:
    class Taken(FakeChain):
        """The tenant's transaction comes before the close in the block."""

        async def broadcast(self, messages: Sequence[Message]) -> TxResult:
            if messages[0].DESCRIPTOR.name == "MsgCloseBid":
                self.create_lease(order_id(7).bid_by(US))
            return await super().broadcast(messages)

    async with running(tmp_path, chain=Taken()) as world:
        world.chain.add_order(make_order(7, cpu=3000))
        await world.block()
        await world.later(310)
        await world.block()
        assert world.free_cpu() == 1000
        assert world.market.book.leased == {order_id(7)}


async def test_a_close_that_the_budget_holds_back_does_not_have_everything_compared_again_and_again(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(7))
        await world.block()
        world.chain.add_order(make_order(8))
        await world.block()
        held = FeesHeldBack("the day's fees are spent", again_at=world.clock.now() + 86400)
        world.chain.before = fail("broadcast", held, times=10**6)
        world.chain.create_lease(order_id(8).bid_by(RIVAL))
        await world.block()
        world.chain.calls.clear()
        for _ in range(300):
            await world.clock.advance(2)
        await world.quiet()
        assert world.chain.calls.count("open_orders") <= 11


async def test_a_bid_of_unknown_end_keeps_its_room_as_long_as_a_block_may_still_have_it(tmp_path: Path) -> None:
    """A transaction holds for twenty blocks, which take two minutes and may take more."""
    chain = Silent()
    async with running(tmp_path, chain=chain) as world:
        chain.silent = True
        chain.add_order(make_order(7, cpu=3000))
        await world.block()
        chain.silent = False
        chain.add_order(make_order(8, cpu=3000))
        await world.block()
        chain.orders = dict(reversed(chain.orders.items()))  # the other one would be first in the list
        for _ in range(3):
            await world.later(70)
        assert (chain.sent, world.free_cpu()) == ([], 1000)
        chain.height += 30
        await world.later(70)
        assert [message.id.dseq for message in chain.sent] == [8]  # type: ignore[attr-defined]


async def test_an_order_that_the_node_asked_does_not_know_yet_is_looked_at_soon(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        order = make_order()
        world.chain.add_order(order)
        del world.chain.orders[order.id]
        await world.block()
        world.chain.orders[order.id] = order
        await world.later(3)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_that_always_fails_does_not_have_all_others_compared_every_two_seconds(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.before = fail("audited_attributes", ChainError("fake", "a value that cannot be"), times=10**6)
        world.chain.audits[US, "akash1auditor"] = ATTRIBUTES
        world.chain.add_order(make_order(signed_by=SignedBy(any_of=("akash1auditor",))))
        await world.block()
        world.chain.calls.clear()
        for _ in range(30):
            await world.later(2)
        assert world.chain.calls.count("open_orders") <= 4
        assert world.free_cpu() == 4000
        world.chain.before = lambda name: None
        await world.later(61)
        assert world.chain.sent_kinds() == ["MsgCreateBid"], "and is bid on when it does not fail any more"


async def test_a_defect_about_one_order_ends_nothing_and_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def divides(asked: PriceRequest) -> Quote:
        if asked.order == order_id(7):
            raise ZeroDivisionError("by nothing")
        return Quote("made", asked.most)

    async with running(tmp_path) as world:
        object.__setattr__(world.market, "pricing", divides)
        for dseq in (7, 8):
            world.chain.add_order(make_order(dseq))
            await world.block()
        await world.later(130)
        assert [message.id.dseq for message in world.chain.sent] == [8]  # type: ignore[attr-defined]
        assert world.free_cpu() == 3000
    assert capsys.readouterr().out.count("market.order_not_decided") == 1


async def test_a_bid_that_became_a_lease_is_no_bid_without_one_when_the_lease_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        world.chain.close_lease(world.ours())
        await world.block()
        world.ledger.release(order_id(7))
        await world.later(61)
        assert world.market.tenant_holdings(order_id(9)).bids_lately == 0


async def test_a_lease_that_is_adopted_while_its_order_is_judged_keeps_its_reservation(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.gates["bid"] = asyncio.Event()
        order = make_order(7, cpu=3000)
        world.chain.add_order(order)
        await world.block()
        bid = order.id.bid_by(US)
        world.chain.bid_states[bid] = Bid(bid, BidState.OPEN, order.spec.units[0].price, 95)
        world.chain.create_lease(bid)
        world.market.full_pass_due.set()
        await world.later(60)
        assert world.market.book.leased == {order.id}
        world.chain.gates["bid"].set()
        await world.later(1)
        assert world.market.ledger.reservation(order.id) is not None
        assert world.free_cpu() == 1000


async def test_an_own_open_bid_that_a_new_order_turns_out_to_have_is_adopted_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        order = make_order(7, cpu=3000)
        bid = order.id.bid_by(US)
        world.chain.bid_states[bid] = Bid(bid, BidState.OPEN, order.spec.units[0].price, 95)
        world.chain.add_order(order)
        await world.block()
        await world.later(3)
        assert order.id in world.market.book.placed
        assert (world.chain.sent, world.free_cpu()) == ([], 1000)


async def test_a_close_that_the_chain_refuses_keeps_the_reservation_of_the_open_bid(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(7, cpu=3000))
        await world.block()
        refusal = TxRefused("fake", codespace="sdk", code=11, log="out of gas")
        world.chain.before = fail("broadcast", refusal, times=10**6)
        await world.later(310)
        assert world.free_cpu() == 1000
        world.chain.before = lambda name: None
        await world.later(120)
        assert (world.chain.sent_kinds().count("MsgCloseBid"), world.free_cpu()) == (1, 4000)
