"""A lease that the chain calls reclaiming is served until the chain's deadline, and then closed, whatever began it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from provider.chain.messages import CloseReason
from provider.errors import ChainError, TxRefused
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.lifecycle.ending.notice import NOT_TAKEN, UNPROVEN
from provider.lifecycle.state import LeaseStatus, Phase, tenant_text
from provider.protocols.chain import LeaseAnswer, LeaseState
from tests.provider.lifecycle.test_manifest_wait import Waiting, won
from tests.provider.lifecycle.world import a_group, a_lease
from tests.world.cluster import unreachable

pytestmark = pytest.mark.virtual_time

L = a_lease()
HOUR = 3600.0
CLOSE = [("MsgCloseBid", CloseReason.DECOMMISSION)]


def announce(world: Waiting, *, reason: int = CloseReason.DECOMMISSION) -> None:
    """The provider's account has announced the end of the lease in an hour, by another program."""
    lease = world.chain.lease_states[L]
    world.chain.window, world.chain.deadline = 3600 * 10**9, int(world.time.now() + HOUR)
    world.chain.lease_states[L] = replace(lease, state=LeaseState.RECLAIMING, reclaim_started=11, reclaim_reason=reason)


async def announced() -> Waiting:
    """A running lease whose application is healthy."""
    world = Waiting()
    await world.run(L, a_group())
    announce(world)
    return world


async def test_a_healthy_lease_is_served_until_the_chains_deadline_and_closed_after_it() -> None:
    world = await announced()
    outcome = await world.check(L)
    assert outcome.phase is Phase.RUNNING and "the provider ends this lease at 2" in outcome.reason
    assert outcome.again_in is not None and HOUR - 1 < outcome.again_in <= HOUR + 2
    await world.after(outcome.again_in)
    assert world.said == CLOSE
    await world.after(59)
    assert world.said == CLOSE, "the node may be behind"
    await world.after(1)
    assert world.said == CLOSE * 2


async def test_a_restart_forgets_no_notice_also_when_the_block_of_the_notice_is_pruned_by_then() -> None:
    world = await announced()
    await world.check(L)
    assert [each.kind for each in world.store.directives] == [DirectiveKind.NOTICE]
    world.chain.notices_signed = False
    await world.restarted()
    await world.after(HOUR + 2)
    assert world.said == CLOSE


async def test_a_node_that_is_behind_does_not_take_a_proven_notice_away() -> None:
    world = await announced()
    await world.check(L)
    world.chain.notices_signed = False
    known, world.chain.deadline = world.chain.deadline, 0
    world.chain.lease_states[L] = replace(world.chain.lease_states[L], state=LeaseState.ACTIVE)
    assert "the provider ends this lease at" in (await world.check(L)).reason
    world.chain.lease_states[L] = replace(world.chain.lease_states[L], state=LeaseState.RECLAIMING)
    world.chain.deadline = known
    await world.after(HOUR + 2)
    assert world.said == CLOSE


async def test_nothing_of_a_notice_is_left_when_the_lease_has_ended() -> None:
    world = await announced()
    await world.check(L)
    world.chain.put_lease(L, LeaseState.CLOSED)
    world.chain.end_signers[L] = L.owner
    outcome = await world.converge(L)
    assert outcome.phase is Phase.CLOSED and "notice" not in outcome.reason and "ends this lease" not in outcome.reason
    await world.reconciler.record.write()
    assert DirectiveKind.NOTICE not in {each.kind for each in world.store.directives}


async def test_a_lease_that_was_announced_and_ended_while_we_were_down_leaves_no_directive() -> None:
    world = Waiting()
    world.store.directives = (Directive(L, DirectiveKind.NOTICE, 0.0),)
    await world.restarted()
    world.reconciler.memories.only(())
    await world.reconciler.record.write()
    assert world.store.directives == ()


async def test_one_node_that_makes_a_notice_up_closes_no_lease() -> None:
    world = await announced()
    world.chain.notices_signed = False
    with capture_logs() as logs:
        outcome = await world.after(HOUR + 2)
    assert world.said == [] and outcome.phase is Phase.RUNNING and outcome.reason.endswith(UNPROVEN)
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["lifecycle.notice_unproven"]


@pytest.mark.parametrize(("second", "closed"), [(LeaseState.RECLAIMING, True), (LeaseState.ACTIVE, False)])
async def test_a_second_node_that_knows_the_notice_is_evidence(second: LeaseState, closed: bool) -> None:
    world = await announced()
    world.chain.notices_signed = False
    theirs = replace(
        world.chain.lease_states[L],
        state=second,
        reclamation_ns=world.chain.window,
        reclaim_deadline=world.chain.deadline if second is LeaseState.RECLAIMING else 0,
    )
    world.chain.others = [lambda lease: LeaseAnswer(theirs, world.chain.height, "akashnet-2", "second")]
    await world.after(HOUR + 2)
    assert bool(world.said) is closed


async def test_a_request_that_the_chain_refuses_is_made_again_and_the_lease_is_served() -> None:
    world = await announced()
    refusal = TxRefused("http://node", codespace="market", code=38, log="reclamation window has not elapsed")
    world.chain.before = lambda name: refuse(refusal) if name == "broadcast" else None
    outcome = await world.after(HOUR + 2)
    assert outcome.phase is Phase.RUNNING and outcome.reason.endswith(NOT_TAKEN) and outcome.again_in == 60
    world.chain.before = lambda name: None
    await world.after(60)
    assert world.said == CLOSE


def refuse(error: Exception) -> None:
    raise error


async def test_a_cluster_that_is_away_does_not_keep_a_lease_beyond_its_notice() -> None:
    world = await announced()
    await world.check(L)
    world.cluster.before = lambda operation, kind, name: refuse(unreachable())
    outcome = await world.after(HOUR + 2)
    assert outcome.retry and world.said == CLOSE


async def test_a_node_that_cannot_show_the_block_of_the_notice_is_asked_again_after_a_minute() -> None:
    world = await announced()
    failing = ChainError("http://node", "block 11 is pruned")
    world.chain.before = lambda name: refuse(failing) if name == "notice_signed" else None
    await world.check(L)
    await world.after(10)
    assert world.chain.calls.count("notice_signed") == 1
    world.chain.before = lambda name: None
    await world.after(60)
    assert world.chain.calls.count("notice_signed") == 2 and world.reconciler.memories[L].notice.proven


@pytest.mark.parametrize(
    ("phase", "reason", "attempts", "text"),
    [
        (Phase.RUNNING, "NOTICE", 0, "NOTICE"),
        (Phase.WAITING_FOR_MANIFEST, "x; NOTICE", 0, "NOTICE"),
        (Phase.APPLYING, "applied; NOTICE", 0, "NOTICE"),
        (Phase.DEGRADED, "pod down; NOTICE", 0, "degraded: pod down; NOTICE"),
        (Phase.DEGRADED, "x", 2, "degraded: the provider has trouble of its own and tries again; NOTICE"),
    ],
)
def test_the_tenant_reads_when_the_lease_ends_in_every_state(
    phase: Phase, reason: str, attempts: int, text: str
) -> None:
    assert tenant_text(LeaseStatus(L, phase, reason, 0.0, attempts, ending="NOTICE")) == text


async def test_the_status_of_a_lease_has_the_notice_for_the_tenant() -> None:
    world = await announced()
    await world.check(L)
    text = tenant_text(world.reconciler.statuses[L])
    assert text.startswith("the provider ends this lease at 2") and text.endswith("Z (decommission)")


async def test_a_notice_that_we_gave_ourselves_is_followed_after_a_restart_without_a_manifest() -> None:
    world = Waiting()
    world.chain.window = 3600 * 10**9
    await won(world)
    await world.after(300)
    announce(world, reason=CloseReason.MANIFEST_TIMEOUT)
    await world.restarted()
    outcome = await world.after(10)
    assert outcome.phase is Phase.WAITING_FOR_MANIFEST and "manifest timeout" in outcome.reason
    await world.after(HOUR + 2)
    assert world.said == [("MsgLeaseStartReclaim", 10003), ("MsgCloseBid", 10003)]


async def test_a_number_that_is_no_reason_of_a_provider_closes_as_unspecified() -> None:
    world = await announced()
    announce(world, reason=1)
    world.chain.lease_states[L] = replace(world.chain.lease_states[L], reclaim_reason=1)
    await world.after(HOUR + 2)
    assert world.said == [("MsgCloseBid", CloseReason.UNSPECIFIED)]
