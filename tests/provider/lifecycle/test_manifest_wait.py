"""A lease that was won and whose tenant sends no manifest is given up: once, in time, and never one that has run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from lease.ids import LeaseId, namespace_name
from provider.chain.messages import CloseReason
from provider.cli.lease_text import show_lines
from provider.errors import ChainError, ClusterError
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.lifecycle.lease_memory import Memories
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.state import LeaseStatus, Outcome, Phase
from provider.protocols.chain import Lease, LeaseAnswer, LeaseState, Message, TxResult
from provider.protocols.cluster import MANIFEST, SECRET
from provider.settings import load_settings
from tests.provider.lifecycle.test_restart_record import Kept
from tests.provider.lifecycle.world import World, a_group, a_lease, lease_chain, on_chain
from tests.world.chain import FakeChain
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

L, OTHER = a_lease(), a_lease(2)
LIMIT = 300.0


class Chain(FakeChain):
    """One that does as it is told; `window`: the notice every lease was promised. `deaf`: no message reaches it."""

    def __init__(self, **known: Any) -> None:
        super().__init__(**known)
        self.window: int | None = None
        self.deadline = 0
        self.deaf = False

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        answer = await super().lease(lease)
        return replace(answer, lease=answer.lease and self._told(answer.lease))

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        if self.deaf:
            raise ChainError("http://node", "no answer")
        return await super().broadcast(messages)

    def _told(self, lease: Lease) -> Lease:
        reason = CloseReason.MANIFEST_TIMEOUT if lease.state.ended else 0
        notice = lease.reclaim_reason or CloseReason.MANIFEST_TIMEOUT
        return replace(
            lease,
            reclamation_ns=self.window,
            reclaim_deadline=self.deadline,
            close_reason=reason,
            reclaim_reason=notice,
        )


class Waiting(World):
    """Time is the test's own, and a restart keeps what the store has."""

    chain: Chain

    def __init__(self, limit_s: float = LIMIT) -> None:
        self.time = VirtualClock()
        self.store = Kept()
        super().__init__(manifest_timeout_s=limit_s, chain=lease_chain(Chain))

    def restart(self) -> None:
        super().restart()
        self.reconciler = Reconciler(self.parts, chain=self.chain, clock=self.time, directives=self.store)  # type: ignore[arg-type]
        self.loop = LeaseLoop(self.reconciler, self.parts, chain=self.chain, clock=self.time)  # type: ignore[arg-type]

    async def restarted(self) -> None:
        self.restart()
        await self.reconciler.record.restore()

    async def after(self, seconds: float, lease: LeaseId = L) -> Outcome:
        """A look that much later; nothing is looked at in between."""
        await self.time.advance(seconds)
        return await self.check(lease)

    @property
    def said(self) -> list[tuple[str, int]]:
        return [(each.DESCRIPTOR.name, each.reason) for each in self.chain.sent]  # type: ignore[attr-defined]


CLOSE = ("MsgCloseBid", 10003)
NOTICE = ("MsgLeaseStartReclaim", 10003)


async def won(world: Waiting, *leases: LeaseId) -> Waiting:
    for lease in leases or (L,):
        await world.win(lease)
        await world.check(lease)
    return world


def test_the_time_is_the_go_providers_and_0_is_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().manifest_timeout == 300
    monkeypatch.setenv("AP_MANIFEST_TIMEOUT", "0")
    assert load_settings().manifest_timeout == 0


async def test_a_lease_without_a_manifest_is_given_up_once_when_its_time_is_over() -> None:
    world = await won(Waiting())
    assert (await world.after(LIMIT - 1)).phase is Phase.WAITING_FOR_MANIFEST and world.said == []
    with capture_logs() as logs:
        outcome = await world.after(1)
    assert world.said == [CLOSE] and [log["event"] for log in logs] == ["lifecycle.manifest_timeout"]
    assert "gives this lease up: no manifest has come within 300 s" in outcome.reason
    await world.after(1)
    assert world.said == [CLOSE], "the node may be behind"


async def test_checks_come_without_events_until_the_time_is_over() -> None:
    world = await won(Waiting())
    waited = 0.0
    while not world.said:
        outcome = await world.check(L)
        assert outcome.again_in is not None and 0 < outcome.again_in <= 60
        if not world.said:
            waited += outcome.again_in
            await world.time.advance(outcome.again_in)
    assert waited == LIMIT


async def test_an_operator_reads_when_it_will_be_given_up_and_why_it_was() -> None:
    world = await won(Waiting())
    shown = "\n".join(show_lines(world.reconciler.statuses[L], ()))
    assert "has not sent a manifest" in shown and "given up 300 s after it was won" in shown
    await world.after(LIMIT)
    world.chain.put_lease(L, LeaseState.CLOSED)
    states = world.bus.subscribe("lease.state")
    async with states as events:
        await world.converge(L)
        closed = await anext(aiter(events))
        while closed.phase is not Phase.CLOSED:  # type: ignore[attr-defined]
            closed = await anext(aiter(events))
    assert "the chain says closed (manifest timeout)" in closed.reason  # type: ignore[attr-defined]
    assert world.leftovers(L) == []
    assert [each.kind for each in world.store.directives] == [DirectiveKind.LET], "it waits no more"


async def test_switched_off_nothing_is_counted_written_or_given_up() -> None:
    world = await won(Waiting(limit_s=0))
    outcome = await world.after(10**9)
    assert outcome.again_in is None and "given up" not in outcome.reason
    assert world.said == [] and world.store.directives == ()


async def test_a_failed_message_is_sent_again() -> None:
    world = await won(Waiting())
    world.chain.deaf = True
    outcome = await world.after(LIMIT)
    assert outcome.retry and "no answer" in outcome.reason and outcome.phase is Phase.WAITING_FOR_MANIFEST
    world.chain.deaf = False
    await world.after(1)
    assert world.said == [CLOSE]


async def test_a_manifest_that_comes_while_the_chain_is_deaf_is_run() -> None:
    world = await won(Waiting())
    world.chain.deaf = True
    await world.after(LIMIT)
    await world.send(L, a_group())
    world.chain.deaf = False
    assert (await world.converge(L)).phase is Phase.RUNNING and world.said == []


async def test_a_second_lease_of_the_deployment_neither_starts_the_first_ones_time_again_nor_stops_it() -> None:
    second = replace(L, gseq=2)
    world = await won(Waiting())
    await world.time.advance(200)
    await world.win(second)
    await world.check(second)
    await world.after(100)
    assert [message.id.gseq for message in world.chain.sent] == [1]  # type: ignore[attr-defined]
    await world.after(200, second)
    assert [message.id.gseq for message in world.chain.sent] == [1, 2]  # type: ignore[attr-defined]


async def test_a_restart_goes_on_counting_and_leaves_the_tenant_a_minute() -> None:
    world = await won(Waiting())
    for _ in range(4):
        await world.time.advance(70)
        await world.restarted()
        await world.check(L)
    assert world.said == []
    await world.after(59)
    assert world.said == [], "280 s and 59"
    await world.after(1)
    assert world.said == [CLOSE]


async def test_after_a_long_downtime_a_minute_is_left() -> None:
    world = await won(Waiting())
    await world.time.advance(10_000)
    await world.restarted()
    assert "given up" in (await world.check(L)).reason and world.said == []
    await world.after(60)
    assert world.said == [CLOSE]


async def test_a_lease_that_was_won_while_we_were_down_has_all_its_time_from_when_we_know_of_it() -> None:
    world = Waiting()
    await world.win(L)
    await world.time.advance(10_000)
    await won(world)
    await world.after(LIMIT - 1)
    assert world.said == []


async def test_a_wait_whose_lease_ended_while_we_were_down_is_forgotten() -> None:
    world = await won(Waiting(), L, OTHER)
    del world.chain.lease_states[L]
    await world.restarted()
    task = asyncio.create_task(world.loop.run())
    await world.time.advance(1)
    assert [each.lease for each in world.store.directives] == [OTHER]
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("error", [ChainError("http://node", "away"), ClusterError("https://api", "away")])
async def test_time_in_which_nobody_could_be_asked_is_not_held_against_the_tenant(error: Exception) -> None:
    world = await won(Waiting())
    world.chain.lies.append(error)
    await world.after(LIMIT - 1)
    await world.after(100)
    assert world.said == [], "the minute counts from the first look that sees again"
    await world.after(60)
    assert world.said == [CLOSE]


async def test_a_lease_with_a_manifest_is_never_touched_however_long_it_waited_before() -> None:
    world = await won(Waiting())
    await world.time.advance(LIMIT - 1)
    await world.send(L, a_group())
    await world.converge(L)
    for _ in range(5):
        await world.after(LIMIT)
    assert world.said == [] and world.store.directives == ()


@pytest.mark.parametrize("lost", [(MANIFEST,), (MANIFEST, SECRET)], ids=["manifest", "manifest and record"])
async def test_what_runs_without_its_records_is_never_given_up(lost: Sequence[object]) -> None:
    world = Waiting()
    await world.run(L, a_group())
    names = {MANIFEST: namespace_name(L), SECRET: f"applied-{namespace_name(L)}"}
    for kind in lost:
        await world.cluster.delete(kind, names[kind], namespace="lease")  # type: ignore[arg-type,index]
    world.engine.lose_state()
    await world.restarted()
    await world.check(L)
    outcome = await world.after(LIMIT)
    assert outcome.phase is Phase.WAITING_FOR_MANIFEST and "had one and is not given up" in outcome.reason
    assert world.said == []


@pytest.mark.parametrize("restarts", [0, 1, 2])
async def test_a_lease_that_was_served_is_not_given_up_when_the_cluster_has_lost_all_of_it(restarts: int) -> None:
    world = Waiting()
    await world.run(L, a_group())
    kept = {key: obj for key, obj in world.cluster.objects.items() if key[1::2] == ("Namespace", "lease")}
    world.cluster.objects = kept
    world.engine.lose_state()
    for restart in range(restarts):
        await world.restarted()
        if restart == 0:
            world.reconciler.memories.before = {L: LeaseStatus(L, Phase.RUNNING, "", 0.0, 0)}
        await world.check(L)
    await world.check(L)
    outcome = await world.after(LIMIT)
    assert outcome.phase is Phase.WAITING_FOR_MANIFEST and "this provider has served it" in outcome.reason
    assert world.said == []
    await world.send(L, a_group())
    assert (await world.converge(L)).phase is Phase.RUNNING and world.store.directives == ()


async def test_a_manifest_that_an_old_list_does_not_show_counts() -> None:
    world = await won(Waiting())
    outcome = Outcome(Phase.WAITING_FOR_MANIFEST, "so the list said")
    await world.send(L, a_group())
    await world.time.advance(LIMIT)
    assert "not given up" in (await world.reconciler._wait(L, world.reconciler.memories[L], outcome)).reason
    assert world.said == []


async def test_a_lease_with_a_window_is_given_notice_and_closed_when_it_is_over() -> None:
    world = Waiting()
    world.chain.window = 3600 * 10**9
    await won(world)
    await world.after(LIMIT)
    assert world.said == [NOTICE]
    world.chain.put_lease(L, LeaseState.RECLAIMING)
    world.chain.deadline = int(world.time.now()) + 3600
    outcome = await world.after(3600)
    assert world.said == [NOTICE] and "the provider ends this lease at" in outcome.reason
    await world.after(1)
    assert world.said == [NOTICE, CLOSE]


async def test_a_lease_whose_notice_runs_and_that_gets_its_manifest_is_served_until_its_notice_is_over() -> None:
    world = Waiting()
    world.chain.window = 3600 * 10**9
    await won(world)
    await world.after(LIMIT)
    world.chain.put_lease(L, LeaseState.RECLAIMING)
    world.chain.deadline = int(world.time.now()) + 3600
    await world.send(L, a_group())
    await world.converge(L)
    assert world.said == [NOTICE] and world.image(L) == "nginx:1"
    await world.after(4000)
    assert world.said == [NOTICE, CLOSE] and world.image(L) == "nginx:1"


async def test_one_that_ended_while_it_was_to_be_given_up_is_asked_nothing() -> None:
    world = await won(Waiting())
    alive = LeaseAnswer(on_chain(L, LeaseState.ACTIVE), world.chain.height + 1, "akashnet-2")
    world.chain.lies.append(alive)
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.after(LIMIT)
    assert world.said == []


def test_a_jump_of_the_wall_clock_ends_nothing_while_the_provider_runs() -> None:
    memory = Memories(LifecycleConfig(provider="akash1", manifest_timeout_s=LIMIT))[L]
    memory.manifest_wait.left(now=10)
    assert memory.directives(L, now=10, wall=10**9) == [Directive(L, DirectiveKind.AWAITED, 10**9)]
    assert memory.manifest_wait.left(now=20) == LIMIT - 10


@pytest.mark.parametrize(("ago", "left"), [(1000.0, 60.0), (30.0, 270.0), (-100.0, LIMIT)])
async def test_what_a_restart_knows_is_never_longer_ago_than_the_clocks_say_nor_in_the_future(
    ago: float, left: float
) -> None:
    world, store = Waiting(), Kept()
    now = world.time.now()
    store.directives = (
        Directive(L, DirectiveKind.AWAITED, now - ago), Directive(OTHER, DirectiveKind.HELD, 0.0),
    )  # fmt: skip
    world.store = store
    await world.restarted()
    waits = {lease: world.reconciler.memories[lease].manifest_wait for lease in (L, OTHER)}
    assert waits[L].left(now=world.time.monotonic()) == left
    assert waits[OTHER].left(now=world.time.monotonic()) == LIMIT
