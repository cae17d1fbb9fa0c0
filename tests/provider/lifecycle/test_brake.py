"""Many leases that one node alone calls ended wait for an operator; few do not, and those whose end has evidence never
do. And an application that does not run: when its lease is given up, and when never.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lease.ids import LeaseId
from provider.bus import CHAIN_BLOCK
from provider.chain.events import LEASE_CLOSED
from provider.chain.messages import CloseReason
from provider.errors import ChainError
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.directives import Directive
from provider.lifecycle.ending.brake import Brake
from provider.lifecycle.lease_memory import Instability, Memories
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.restart_record import RestartRecord
from provider.lifecycle.state import Phase
from provider.protocols.chain import Block, LeaseAnswer, LeaseState
from tests.provider.lifecycle.test_health import a_pod, running_with, unscheduled, waiting
from tests.provider.lifecycle.test_restart_record import Kept
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease, on_chain
from tests.world.chain import event_of
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

L = a_lease()
LEASES = [a_lease(number) for number in range(1, 41)]


class Braked:
    """A brake with the memories of all leases, as a reconciler has them."""

    def __init__(self, *, leases: int = 10, percent: float = 50, known: int = 40, window_s: float = 600) -> None:
        self.memories = Memories(LifecycleConfig(provider="akash1"))
        self.brake = Brake(leases=leases, percent=percent, window_s=window_s)
        self.brake.knows(known)
        self.clock = VirtualClock()

    @property
    def held(self) -> frozenset[LeaseId]:
        return self.memories.held()

    def announced(self, lease: LeaseId, *, now: float) -> None:
        self.memories[lease].clearance.announce(now=now)

    def not_ended(self, lease: LeaseId, *, now: float) -> None:
        self.memories[lease].clearance.not_ended(now=now, window_s=self.brake.window_s)

    def may_remove(self, lease: LeaseId, *, now: float) -> bool:
        return self.brake.may_remove(lease, self.memories[lease].clearance, now=now, on=bool(self.held))

    def directives(self) -> list[Directive]:
        return [each for lease, memory in self.memories.items() for each in memory.directives(lease, now=0, wall=0)]

    def record(self, store: Kept) -> RestartRecord:
        return RestartRecord(store, self.memories, self.brake, clock=self.clock)


def let(made: Braked, leases: list[LeaseId], *, now: float = 0) -> list[LeaseId]:
    return [lease for lease in leases if made.may_remove(lease, now=now)]


@pytest.mark.parametrize(
    ("leases", "percent", "known", "most"),
    [(10, 50, 40, 10), (10, 10, 40, 4), (10, 10, 1000, 10), (0, 0, 40, 3), (10, 20, 5, 3), (10, 20, 0, 3)],
)
def test_so_many_go_unannounced_and_no_more(leases: int, percent: float, known: int, most: int) -> None:
    made = Braked(leases=leases, percent=percent, known=known)
    assert let(made, LEASES) == LEASES[:most]
    assert made.held == frozenset(LEASES[most:]) and f"{len(LEASES) - most} more" in made.brake.why(held=len(made.held))


def test_other_limits_hold_from_now_on_and_what_was_let_or_is_held_stays_so() -> None:
    made = Braked(leases=4, percent=100)
    assert let(made, LEASES[:6]) == LEASES[:4]
    made.brake.limit(leases=6, percent=100, window_s=100)
    assert made.held == frozenset(LEASES[4:6]) and let(made, LEASES[:4]) == LEASES[:4]
    assert let(made, LEASES[6:], now=99) == [], "leases that are held hold the others too"
    assert Braked(leases=4, percent=100).brake.window_s == 600 and made.brake.window_s == 100
    fresh = Braked(leases=4, percent=100)
    fresh.brake.limit(leases=6, percent=100, window_s=100)
    assert let(fresh, LEASES) == LEASES[:6]


def test_what_the_chain_announced_goes_however_much_it_is() -> None:
    made = Braked()
    for lease in LEASES:
        made.announced(lease, now=0)
    assert let(made, LEASES) == LEASES and not made.held


def test_an_announcement_that_comes_late_lets_its_lease_go() -> None:
    made = Braked(leases=3)
    let(made, LEASES[:5])
    made.announced(LEASES[4], now=1)
    assert let(made, LEASES[3:5]) == [LEASES[4]]


def test_a_removal_that_was_allowed_goes_on_to_its_end_and_still_counts() -> None:
    made = Braked(leases=3)
    let(made, LEASES[:4])
    assert let(made, LEASES[:3], now=9999) == LEASES[:3]
    made = Braked(leases=3)
    for lease in let(made, LEASES[:3]):
        del made.memories[lease]
    assert let(made, LEASES[3:4], now=599) == []


def test_few_at_a_time_never_brake() -> None:
    made = Braked(leases=3)
    for number, lease in enumerate(LEASES):
        assert made.may_remove(lease, now=number * 300.0)
        del made.memories[lease]


def test_once_it_brakes_time_alone_does_not_release_it_but_an_operator_does() -> None:
    made = Braked(leases=3)
    let(made, LEASES[:6])
    assert let(made, LEASES[6:7], now=10_000) == []
    assert set(made.memories.release_held(now=10_000)) == set(LEASES[3:7])
    assert let(made, LEASES[3:7], now=10_000) == LEASES[3:7] and not made.held


def test_a_lease_that_is_alive_after_all_is_held_no_more() -> None:
    made = Braked(leases=3)
    let(made, LEASES[:4])
    made.not_ended(LEASES[3], now=0)
    assert not made.held


async def forty_running(**config: Any) -> World:
    world = World(**config)
    for lease in LEASES:
        await world.run(lease, a_group())
    return world


async def check_all(world: World, *, rounds: int = 6) -> list[LeaseId]:
    """Check every lease so often; the leases of which something is left."""
    for _ in range(rounds):
        for lease in LEASES:
            await world.check(lease)
        world.cluster.settle()
    return [lease for lease in LEASES if world.leftovers(lease)]


async def test_a_node_that_calls_everything_closed_removes_only_a_few_leases() -> None:
    world = await forty_running()
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
    left = await check_all(world)
    assert len(left) == 30 and world.loop.braked == frozenset(left)
    status = world.reconciler.statuses[left[0]]
    assert status.phase is Phase.RUNNING and "teardown brake: 10 leases were removed in 3600 s" in status.reason
    await world.elapse(7200)
    assert await check_all(world) == left, "time alone lets no held lease go"
    assert world.loop.close(left[0]) == ""
    assert await check_all(world) == left[1:], "an operator's request for one lease lets that one go"
    world.loop.release_brake()
    assert await check_all(world) == []


async def test_a_share_of_all_leases_may_be_the_smaller_limit() -> None:
    world = await forty_running(brake_percent=20.0)
    world.reconciler.brake.knows(40)
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
    assert len(await check_all(world)) == 32


async def test_a_node_that_fakes_the_events_too_removes_no_more() -> None:
    world = await forty_running()
    task = asyncio.create_task(world.loop.run())
    await world.elapse(50)
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
    events = tuple(event_of(LEASE_CLOSED, lease) for lease in LEASES)
    world.bus.publish(CHAIN_BLOCK, Block(world.chain.height + 1, events))
    for _ in range(60):
        world.cluster.settle()
        await world.elapse(5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert len([lease for lease in LEASES if world.leftovers(lease)]) == 30 and len(world.loop.braked) == 30


async def test_a_tenant_who_closes_forty_deployments_is_served_at_once() -> None:
    world = await forty_running()
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
        world.chain.end_signers[lease] = lease.owner
    assert await check_all(world) == [] and not world.loop.braked


async def test_a_signature_of_somebody_else_is_no_evidence() -> None:
    world = await forty_running()
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
        world.chain.end_signers[lease] = OTHER
    assert len(await check_all(world)) == 30


async def test_a_second_node_that_agrees_is_evidence() -> None:
    world = await forty_running()
    world.chain.others.append(lambda lease: replace(world.chain.truth(lease), node="second"))
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
    assert await check_all(world) == []


@pytest.mark.parametrize("said", [{"chain_id": "othernet-1"}, {"chain_id": ""}, {"lease": None}, {"height": 1}])
async def test_a_second_node_that_can_say_nothing_is_waited_for_an_hour(said: dict[str, Any]) -> None:
    """Of another chain, without the lease, or behind: then the brake decides, as for a single node."""
    world = await forty_running()
    alive: dict[str, Any] = {"lease": on_chain(LEASES[0], LeaseState.ACTIVE)} if "height" in said else {}
    world.chain.others.append(lambda lease: replace(world.chain.truth(lease), node="second", **alive, **said))
    for lease in LEASES:
        state = on_chain(lease, LeaseState.CLOSED)
        world.chain.lease_states[lease] = replace(state, closed_on=5)
    assert await check_all(world) == LEASES and not world.loop.braked
    assert "no second node of AP_NODE can confirm it now" in world.reconciler.statuses[LEASES[0]].reason
    await world.elapse(3601)
    assert len(await check_all(world)) == 30


async def test_nodes_that_are_all_away_are_asked_again() -> None:
    world = World()
    await world.run(L, a_group())
    world.chain.put_lease(L, LeaseState.CLOSED)

    def away(name: str) -> None:
        if name == "lease_on_each_node":
            raise ChainError("http://node", "no node answers")

    world.chain.before = away
    for _ in range(20):
        outcome = await world.check(L)
    assert outcome.retry and world.leftovers(L)


async def test_where_another_node_calls_the_lease_alive_nothing_goes_until_the_nodes_agree() -> None:
    world = World()
    await world.run(L, a_group())
    alive = on_chain(L, LeaseState.ACTIVE)
    world.chain.others.append(lambda lease: LeaseAnswer(alive, world.chain.height, "akashnet-2", "second"))
    world.chain.put_lease(L, LeaseState.CLOSED)
    for _ in range(5):
        outcome = await world.check(L)
    assert world.leftovers(L) and "nodes disagree: second calls the lease alive" in outcome.reason
    assert world.loop.braked == {L} and outcome.again_in == 60.0
    world.chain.others[0] = lambda lease: replace(world.chain.truth(lease), node="second")
    await world.converge(L)
    assert world.leftovers(L) == []


async def test_a_lease_whose_escrow_ran_out_by_our_own_arithmetic_goes_and_no_other() -> None:
    world = await forty_running()
    ran_out = set(LEASES[:30])
    world.reconciler = Reconciler(
        world.parts,
        chain=world.chain,  # type: ignore[arg-type]
        clock=world.clock,
        ran_out=lambda lease, height: lease in ran_out,
    )
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.INSUFFICIENT_FUNDS)
    assert await check_all(world) == [], "thirty have evidence, ten more may go"
    world = await forty_running()
    world.reconciler = Reconciler(
        world.parts,
        chain=world.chain,  # type: ignore[arg-type]
        clock=world.clock,
        ran_out=lambda lease, height: True,
    )
    for lease in LEASES:
        world.chain.put_lease(lease, LeaseState.CLOSED)
    assert len(await check_all(world)) == 30, "an account that ran out does not close a lease that is called closed"


CRASH = waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}})


async def crashing(world: World, *, looks: int = 40) -> None:
    for _ in range(looks):
        await world.check(L)
        await world.elapse(5)


async def test_an_unstable_lease_is_never_closed_unless_an_operator_sets_a_limit() -> None:
    world = await running_with(a_pod(CRASH), workload={"observedGeneration": 1})
    await crashing(world)
    assert world.chain.sent == []


async def test_an_application_that_crashes_for_too_long_is_given_up_once() -> None:
    world = await running_with(a_pod(CRASH), workload={"observedGeneration": 1})
    world.config = replace(world.config, unstable_after_s=60.0)
    world.restart()
    await crashing(world, looks=1)
    assert world.chain.sent == [] and (await world.check(L)).again_in == 30.0
    await crashing(world, looks=25)
    assert len(world.chain.sent) >= 1
    assert world.chain.sent[0].reason == CloseReason.UNSTABLE  # type: ignore[attr-defined]
    assert world.leftovers(L), "only the chain's own word removes anything"


@pytest.mark.parametrize(
    "status", [unscheduled("0/1 nodes are available"), {"phase": "Unknown", "reason": "NodeLost"}, None]
)
async def test_what_is_not_the_applications_own_doing_never_closes_a_lease(status: dict[str, object] | None) -> None:
    pods = [a_pod(status)] if status else []
    world = await running_with(*pods, workload={"observedGeneration": 1})
    world.config = replace(world.config, unstable_after_s=60.0)
    world.restart()
    await crashing(world)
    assert world.chain.sent == []


def test_time_in_which_nothing_was_seen_does_not_count() -> None:
    unstable = Instability(100.0)
    assert unstable.saw(unstable=True, now=0) == 0
    assert unstable.saw(unstable=True, now=50) == 50
    unstable.saw_nothing(now=5000)
    assert unstable.saw(unstable=True, now=5010) == 60
    assert unstable.saw(unstable=True, now=9999) == 120 and unstable.over, "no gap counts for more than a minute"
    assert unstable.saw(unstable=False, now=10_000) == 0 and not unstable.over


async def test_a_chain_that_does_not_take_the_message_is_asked_again() -> None:
    world = await running_with(a_pod(CRASH), workload={"observedGeneration": 1})
    world.config = replace(world.config, unstable_after_s=1.0)
    world.restart()

    async def away(messages: object) -> None:
        raise ChainError("http://node", "no answer")

    world.chain.broadcast = away  # type: ignore[method-assign, assignment]
    await crashing(world, looks=3)
    assert (await world.check(L)).retry and world.leftovers(L)


def test_an_announcement_that_the_chain_contradicts_after_the_window_counts_no_more() -> None:
    made = Braked(leases=0, percent=0)
    made.announced(L, now=0)
    made.not_ended(L, now=1)
    assert made.directives(), "the node may only be a block behind"
    made.not_ended(L, now=700)
    assert made.directives() == []


@pytest.mark.parametrize("others", [0, 3])
async def test_a_removal_that_goes_on_longer_than_the_window_goes_on_after_a_restart(others: int) -> None:
    before, after, store = Braked(leases=0, percent=0), Braked(leases=0, percent=0), Kept()
    after.clock = before.clock
    assert before.may_remove(L, now=0)
    let(before, LEASES[5 : 5 + others], now=900)  # these clear the window of the first one
    await before.clock.sleep(900)
    assert await before.record(store).write()
    await after.record(store).restore()
    let(after, LEASES[10:20], now=900)
    assert after.held and after.may_remove(L, now=901)
