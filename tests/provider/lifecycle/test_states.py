"""Every state of a lease can be reached, and is shown to operators by its own words with the reason beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from lease.ids import namespace_name
from provider.cli.lease_text import list_lines
from provider.errors import ChainError
from provider.lifecycle.lease_memory import SlowEnd
from provider.lifecycle.state import LeaseStatus, Outcome, Phase
from provider.protocols.chain import LeaseState
from tests.provider.lifecycle.test_health import a_pod, running_with, waiting
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease
from tests.world.engine import Fault

pytestmark = pytest.mark.virtual_time

L = a_lease()
CRASHES = waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}})


async def unknown() -> World:
    world = World()
    world.chain.lies.append(ChainError("https://node", "connection refused"))
    return world


async def waiting_for_manifest() -> World:
    world = World()
    await world.win(L)
    return world


async def blocked() -> World:
    world = World()
    await world.run(a_lease(7, owner=OTHER), a_group(hosts=["a.example.com"]))
    await world.win(L, a_group(hosts=["a.example.com"]))
    return world


async def applying() -> World:
    world = World()
    await world.win(L, a_group())
    return world


async def running() -> World:
    world = World()
    await world.run(L, a_group())
    return world


async def degraded() -> World:
    world = await running_with(a_pod(CRASHES), workload={"observedGeneration": 1})
    await world.check(L)
    return world


async def failed() -> World:
    world = World()
    world.engine.refused["bad:1"] = "exceeded quota: nothing left"
    await world.win(L, a_group("bad:1"))
    await world.check(L)
    return world


async def update_failed() -> World:
    world = await running()
    world.engine.refused["bad:1"] = "exceeded quota: nothing left"
    await world.send(L, a_group("bad:1"))
    await world.check(L)
    return world


async def closing() -> World:
    world = await running()
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.check(L)
    return world


STATES: dict[Phase, tuple[Callable[[], Awaitable[World]], str]] = {
    Phase.UNKNOWN: (unknown, "connection refused"),
    Phase.WAITING_FOR_MANIFEST: (waiting_for_manifest, "has not sent a manifest"),
    Phase.BLOCKED: (blocked, "a.example.com"),
    Phase.APPLYING: (applying, "waiting for the workloads"),
    Phase.RUNNING: (running, ""),
    Phase.DEGRADED: (degraded, "crash loop: exit code 3"),
    Phase.FAILED: (failed, "exceeded quota"),
    Phase.UPDATE_FAILED: (update_failed, "exceeded quota"),
    Phase.CLOSING: (closing, ""),
}
_ELSEWHERE = {Phase.CLOSED, Phase.QUARANTINED}
"""Told in the tests of the end and of volumes: they outlast the lease."""


def test_no_state_is_left_out() -> None:
    assert STATES.keys() | _ELSEWHERE == set(Phase)


@pytest.mark.parametrize("phase", STATES, ids=lambda phase: phase.name.lower())
async def test_each_state_is_reached_and_shown_with_its_reason(phase: Phase) -> None:
    prepare, reason = STATES[phase]
    world = await prepare()
    outcome = await world.check(L)
    assert outcome.phase is phase, outcome
    assert reason in outcome.reason
    shown = list_lines([world.reconciler.statuses[L]])[1]
    assert phase.value in shown
    assert reason in shown


@pytest.mark.parametrize("phase", Phase)
def test_whatever_the_state_the_list_has_one_line_for_it(phase: Phase) -> None:
    assert len(list_lines([LeaseStatus(L, phase, "a\nreason", 1.0)])) == 2


async def test_a_crash_loop_holds_up_no_update() -> None:
    world = await degraded()
    await world.send(L, a_group("nginx:2"))
    await world.check(L)
    assert world.image(L) == "nginx:2"


async def test_a_fault_of_the_provider_in_an_update_keeps_the_lease_applying_and_is_in_the_reason() -> None:
    world = await applying()
    world.engine.faults.append(Fault(error="connection refused"))
    outcome = await world.check(L)
    assert (outcome.phase, outcome.retry) == (Phase.APPLYING, True)
    assert "connection refused" in outcome.reason


def test_an_end_that_takes_ten_minutes_is_an_error_in_the_log_once() -> None:
    slow, ending = SlowEnd(), Outcome(Phase.CLOSING, f"namespace {namespace_name(L)} is held by finalizer x")
    with capture_logs() as logs:
        for now in (0.0, 599.0, 601.0, 700.0, 5000.0):
            slow.saw(L, ending, now=now)
        slow.saw(L, Outcome(Phase.CLOSED), now=5001.0)
        slow.saw(L, ending, now=5002.0)
    (told,) = logs
    assert (told["event"], told["log_level"], told["minutes"]) == ("lifecycle.slow_end", "error", 10)
    assert "finalizer x" in told["reason"]
