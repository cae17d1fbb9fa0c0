"""The market loop over fakes: one bid an order, none for a closed one, nothing forgotten by a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from provider.bus import CHAIN_BLOCK
from provider.chain import events
from provider.errors import ChainError, TxRefused
from provider.market.book import Book
from provider.market.decision import BidDecision, decide
from provider.market.loop import run_market
from provider.market.record.decisions import load_inputs
from provider.protocols.chain import Bid, BidState, Event, Order
from tests.provider.market.world import RIVAL, US, make_inventory, make_order, make_world, order_id, running
from tests.world.chain import FakeChain, event_of
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time


def fail(name: str, error: Exception, times: int = 1) -> Callable[[str], None]:
    left = times

    def before(call: str) -> None:
        nonlocal left
        if call == name and left:
            left -= 1
            raise error

    return before


async def test_a_new_order_is_decided_recorded_promised_and_bid_on(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        assert world.chain.sent[0].price.amount == "10000000000000000000"  # type: ignore[attr-defined]
        assert world.chain.sent[0].deposit.amount.amount == "500000"  # type: ignore[attr-defined]
        assert world.free_cpu() == 3000
        (decision,) = await world.decisions()
        assert (decision.verdict, decision.reasons) == ("bid", ())
        assert decision.price is not None
        assert (decision.price.denom, decision.price.amount) == ("uact", 10)
        assert decision.outcome.startswith("sent ")


async def test_an_open_order_from_before_the_start_is_bid_on(tmp_path: Path) -> None:
    chain = FakeChain()
    chain.add_order(make_order())
    async with running(tmp_path, chain=chain):
        assert chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_seen_twice_gets_one_bid(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        event = world.chain.add_order(make_order())
        await world.block(event, event)
        await world.block(event)
        await world.later(120)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_an_order_that_does_not_fit_is_declined_with_all_reasons_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(cpu=8000, price="1", ips=1))
        await world.block()
        await world.later(200)
        assert world.chain.sent == []
        (decision,) = await world.decisions()
        assert decision.verdict == "declined"
        text = " | ".join(decision.reasons)
        for word in ("0 of 1 replicas fit", "leased IPs", "above the order's maximum"):
            assert word in text


async def test_a_declined_order_is_bid_on_when_room_appears(tmp_path: Path) -> None:
    async with running(tmp_path, inventory=make_inventory(1500)) as world:
        world.chain.add_order(make_order(7))
        world.chain.add_order(make_order(8))
        await world.block()
        assert len(world.chain.sent) == 1
        won = world.chain.sent[0].id.dseq  # type: ignore[attr-defined]
        world.chain.close_order(order_id(won))
        await world.block()
        await world.later(70)
        assert world.chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid", "MsgCreateBid"]


async def test_a_won_lease_keeps_its_promise_and_is_announced(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        assert world.changed_leases() == [world.ours()]
        assert world.free_cpu() == 3000
        await world.later(1000)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        assert world.free_cpu() == 3000


async def test_a_lost_bid_is_taken_back_and_its_promise_released(tmp_path: Path) -> None:
    """The chain may leave a losing bid open with its deposit locked, and no event says so (chain.md §14, 1)."""
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(order_id(7).bid_by(RIVAL))
        await world.block()
        assert world.chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid"]
        assert world.free_cpu() == 4000
        (decision,) = await world.decisions()
        assert decision.outcome == f"lost to {RIVAL}"


async def test_a_reservation_that_no_bid_and_no_lease_holds_leaves_with_a_line_in_the_log(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        order, market = make_order(), world.market
        market.ledger.rebuild(order.id, order.spec, inventory=market.inventory(), overcommit=market.rules.overcommit)
        assert world.free_cpu() < 4000
        with capture_logs() as lines:
            await world.later(200)
        assert world.free_cpu() == 4000
        told = [line for line in lines if line["event"] == "market.reservation_released"]
        assert [(line["order"], line["log_level"]) for line in told] == [(str(order.id), "warning")]


async def test_a_bid_the_chain_marked_lost_costs_no_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        ours = world.chain.bid_states[world.ours()]
        world.chain.create_lease(order_id(7).bid_by(RIVAL))
        world.chain.bid_states[world.ours()] = Bid(ours.id, BidState.LOST, ours.price, ours.created_at)
        await world.block()
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        assert world.free_cpu() == 4000


@pytest.mark.parametrize(
    "kind",
    [events.ORDER_CLOSED, events.GROUP_CLOSED, events.GROUP_PAUSED, events.DEPLOYMENT_CLOSED],
)
async def test_no_bid_stays_open_for_an_order_that_closed_in_any_way(tmp_path: Path, kind: str) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        item = order_id(7)
        about = {events.ORDER_CLOSED: item, events.DEPLOYMENT_CLOSED: item.deployment}.get(kind, item.group)
        await world.block(event_of(kind, about))  # type: ignore[arg-type]
        assert world.chain.bid_states[world.ours()].state is BidState.CLOSED
        assert world.free_cpu() == 4000


async def test_an_order_that_closes_while_its_bid_is_on_its_way_leaves_no_open_bid(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.gate = asyncio.Event()
        world.chain.add_order(make_order())
        world.bus.publish(CHAIN_BLOCK, await world.chain.push())
        await world.quiet()
        assert world.chain.sent
        world.chain.close_order(order_id(7))
        world.bus.publish(CHAIN_BLOCK, await world.chain.push())
        await world.quiet()
        world.chain.gate.set()
        await world.quiet()
        assert world.chain.bid_states[world.ours()].state is BidState.CLOSED
        assert world.free_cpu() == 4000


async def test_events_of_a_lease_of_ours_end_nothing_here(tmp_path: Path) -> None:
    """The lease loop ends a lease, and reads its events from the chain itself."""
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        await world.block(event_of(events.GROUP_PAUSED, order_id(7).group), event_of(events.LEASE_CLOSED, world.ours()))
        assert world.free_cpu() == 3000
        assert world.changed_leases() == [world.ours()]
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_the_promise_of_a_lease_goes_when_the_chain_says_closed(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        world.chain.close_lease(world.ours())
        await world.block()
        await world.later(70)
        assert world.free_cpu() == 4000


async def test_the_promise_of_a_lease_the_node_does_not_know_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        world.chain.lease_states.clear()
        world.chain.bid_states.clear()
        await world.later(500)
        assert world.free_cpu() == 3000


async def test_a_bid_times_out_and_is_taken_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        await world.later(290)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        await world.later(120)
        assert world.chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid"]
        await world.later(500)
        assert world.chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid"]
        assert world.free_cpu() == 4000


async def test_a_refused_bid_releases_its_promise_and_is_recorded(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        refusal = TxRefused("fake", codespace="market", code=22, log="price invalid")
        world.chain.before = fail("broadcast", refusal, times=9)
        world.chain.add_order(make_order())
        await world.block()
        assert world.free_cpu() == 4000
        assert (await world.decisions())[0].outcome == "refused market 22: price invalid"


async def test_a_bid_of_unknown_outcome_is_found_on_the_chain_and_not_made_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        original = world.chain.broadcast

        async def sends_but_does_not_say(messages):
            await original(messages)
            raise ChainError("fake", "connection lost")

        world.chain.broadcast = sends_but_does_not_say  # type: ignore[method-assign]
        world.chain.add_order(make_order())
        await world.block()
        assert world.free_cpu() == 3000
        world.chain.broadcast = original  # type: ignore[method-assign]
        await world.later(200)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        assert world.free_cpu() == 3000


async def test_a_bid_that_never_arrived_is_made_again_after_a_while(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.before = fail("broadcast", ChainError("fake", "connection lost"))
        world.chain.add_order(make_order())
        await world.block()
        assert (world.chain.sent, world.free_cpu()) == ([], 3000)
        world.chain.height += 30  # its last height is behind us
        await world.later(200)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


@pytest.mark.parametrize("call", ["order", "bid"])
async def test_an_order_that_could_not_be_read_is_looked_at_again_soon(tmp_path: Path, call: str) -> None:
    async with running(tmp_path) as world:
        world.chain.before = fail(call, ChainError("fake", "timeout"))
        world.chain.add_order(make_order())
        await world.block()
        assert world.chain.sent == []
        await world.later(5)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_missed_blocks_are_made_good_from_the_state(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        world.chain.pending.clear()
        await world.block(missed_from=50)
        await world.later(5)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_nothing_is_decided_while_the_node_is_behind(tmp_path: Path) -> None:
    chain = FakeChain()
    chain.catching_up = True
    chain.add_order(make_order())
    async with running(tmp_path, chain=chain) as world:
        await world.later(200)
        assert chain.sent == []
        chain.catching_up = False
        await world.later(70)
        assert chain.sent_kinds() == ["MsgCreateBid"]


@pytest.mark.parametrize("told_by", [events.PROVIDER_CREATED, events.PROVIDER_UPDATED])
async def test_a_provider_that_is_not_registered_bids_as_soon_as_it_is(tmp_path: Path, told_by: str) -> None:
    chain = FakeChain()
    chain.add_order(make_order())
    async with running(tmp_path, chain=chain) as world:
        chain.sent.clear()
        record = chain.providers.pop(US)
        await world.later(70)
        chain.add_order(make_order(8))
        await world.block()
        assert chain.sent == []
        chain.providers[US] = record
        await world.block(Event(told_by, {"owner": US}))
        await world.later(5)
        assert chain.sent_kinds() == ["MsgCreateBid"]


async def test_after_a_kill_an_open_bid_is_adopted_with_its_promise(tmp_path: Path) -> None:
    chain = FakeChain()
    async with running(tmp_path, chain=chain) as world:
        chain.add_order(make_order())
        await world.block()
    async with running(tmp_path, chain=chain) as world:
        assert world.free_cpu() == 3000
        assert chain.sent_kinds() == ["MsgCreateBid"]
        chain.create_lease(order_id(7).bid_by(RIVAL))
        await world.block()
        assert chain.sent_kinds() == ["MsgCreateBid", "MsgCloseBid"]
        assert world.free_cpu() == 4000


async def test_an_open_bid_of_another_program_of_this_account_is_taken_on_and_won(tmp_path: Path) -> None:
    """The Go provider's bids when an operator moves: the home that finds them has no record of them."""
    chain = FakeChain()
    async with running(tmp_path / "elsewhere", chain=chain) as world:
        chain.add_order(make_order())
        await world.block()
    async with running(tmp_path / "new", chain=chain) as world:
        assert world.free_cpu() == 3000
        assert chain.sent_kinds() == ["MsgCreateBid"]  # not a second one
        chain.create_lease(world.ours())
        await world.block()
        assert world.free_cpu() == 3000
        assert chain.sent_kinds() == ["MsgCreateBid"]


async def test_after_a_kill_a_bid_whose_order_closed_meanwhile_is_taken_back(tmp_path: Path) -> None:
    chain = FakeChain()
    async with running(tmp_path, chain=chain) as world:
        chain.add_order(make_order())
        await world.block()
    chain.close_order(order_id(7))
    async with running(tmp_path, chain=chain) as world:
        assert chain.bid_states[world.ours()].state is BidState.CLOSED
        assert world.free_cpu() == 4000


async def test_after_a_kill_leases_are_counted_before_new_orders_are_decided(tmp_path: Path) -> None:
    chain = FakeChain()
    async with running(tmp_path, chain=chain, inventory=make_inventory(1500)) as world:
        chain.add_order(make_order(7))
        await world.block()
        chain.create_lease(world.ours())
    chain.add_order(make_order(8))
    async with running(tmp_path, chain=chain, inventory=make_inventory(1500)) as world:
        assert chain.sent_kinds() == ["MsgCreateBid"]
        assert world.free_cpu() == 500
        assert world.changed_leases() == [], "the lease loop finds the leases of a start itself"
        await world.block()
        assert world.changed_leases() == [world.ours()], "the event of the lease came after the start"


async def test_a_lease_of_which_no_event_told_is_announced_by_a_full_pass(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        world.chain.pending.clear()
        await world.later(70)
        assert world.changed_leases() == [world.ours()]


async def test_after_losing_the_disk_too_nothing_is_different(tmp_path: Path) -> None:
    chain = FakeChain()
    (tmp_path / "one").mkdir()
    async with running(tmp_path / "one", chain=chain) as world:
        chain.add_order(make_order(7))
        chain.add_order(make_order(8))
        await world.block()
        chain.create_lease(world.ours(8))
    async with running(tmp_path / "two", chain=chain) as world:
        assert world.free_cpu() == 2000
        assert chain.sent_kinds() == ["MsgCreateBid", "MsgCreateBid"]


async def test_two_orders_never_get_the_same_room(tmp_path: Path) -> None:
    async with running(tmp_path, inventory=make_inventory(5500)) as world:
        for dseq in range(1, 31):
            world.chain.add_order(make_order(dseq))
        await world.block()
        assert len(world.chain.sent) == 5
        assert world.free_cpu() == 500


async def test_a_closed_leases_new_order_gets_a_new_bid(tmp_path: Path) -> None:
    """Closing only the lease opens oseq 2 in the same transaction (chain.md §3)."""
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        world.chain.create_lease(world.ours())
        await world.block()
        world.chain.close_lease(world.ours())
        world.chain.add_order(make_order(oseq=2))
        await world.block()
        assert [(m.DESCRIPTOR.name, m.id.oseq) for m in world.chain.sent] == [("MsgCreateBid", 1), ("MsgCreateBid", 2)]  # type: ignore[attr-defined]


async def test_hostile_events_change_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        kinds = [kind for kind in vars(events).values() if isinstance(kind, str) and kind.startswith("akash.")]
        ids = (None, 5, {}, {"owner": 1, "dseq": "x"}, [])
        junk = [Event(kind, {"id": item}) for kind in kinds for item in ids]
        await world.block(*junk, Event("akash.unknown", {}))
        world.chain.add_order(make_order())
        await world.block()
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


async def test_every_decision_can_be_made_again_from_the_store(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(7))
        world.chain.add_order(make_order(8, cpu=9000))
        await world.block()
        for dseq, kind in ((7, "bid"), (8, "declined")):
            (stored,) = await world.decisions(dseq)
            assert stored.verdict == kind
            kept = await load_inputs(world.database, stored.id)
            again = decide(kept)
            if isinstance(again, BidDecision):
                assert again.price == stored.price
            else:
                assert again.reasons == stored.reasons


async def test_no_bid_leaves_without_its_record(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.database.close()
        (tmp_path / "market.db").unlink()
        (tmp_path / "market.db").mkdir()
        for name in ("market.db-wal", "market.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        world.chain.add_order(make_order())
        await world.block()
        assert world.chain.sent == []
        assert world.free_cpu() == 4000
        (tmp_path / "market.db").rmdir()


class StaleList(FakeChain):
    """Its list of open orders is of a time before every order."""

    async def open_orders(self) -> Sequence[Order]:
        return []


async def test_a_bid_whose_order_a_stale_list_leaves_out_stays_open_while_its_order_does(tmp_path: Path) -> None:
    async with running(tmp_path, chain=StaleList()) as world:
        world.chain.add_order(make_order())
        await world.block()
        await world.later(130)
        assert world.chain.sent_kinds() == ["MsgCreateBid"]
        world.chain.close_order(order_id(7))
        world.chain.pending.clear()
        await world.later(130)
        assert world.chain.bid_states[world.ours()].state is BidState.CLOSED


def test_the_time_of_a_bid_is_kept_for_an_hour_and_an_owner_without_one_is_forgotten() -> None:
    book = Book()
    book.bid_at = {"akash1a": {order_id(1): 0.0, order_id(2): 100.0}, "akash1b": {order_id(3): 0.0}}
    book.keep_only(set(), now=3600.0)
    assert book.bid_at == {"akash1a": {order_id(2): 100.0}}


async def test_a_chain_that_is_away_for_an_hour_fills_no_log(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        with capture_logs() as logs:
            world.chain.before = lambda name: _away()
            await world.later(1800)
            assert "connection refused" in world.market.book.pass_problem
            world.chain.before = lambda name: None
            await world.later(120)
            assert not world.market.book.pass_problem
        found = [log["event"] for log in logs if log["event"].startswith("market.pass")]
        assert found == ["market.pass_failed", "market.pass_works"]


def _away() -> None:
    raise ChainError("http://node", "connection refused")


async def test_old_decisions_are_removed_at_the_start_and_every_hour(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "market.db")
    world = make_world(database)
    task = asyncio.create_task(run_market(replace(world.market, decisions_age=5400.0)))
    await world.quiet()
    world.chain.add_order(make_order(7))
    await world.block()
    await world.later(3700)
    assert len(await world.decisions(7)) == 1
    await world.later(3600)
    assert await world.decisions(7) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await database.close()
