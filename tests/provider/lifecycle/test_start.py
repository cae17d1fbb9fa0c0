"""A start with many leases: what is as it should be costs no process and a few lists in all."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from lease.ids import namespace_name
from provider.lifecycle.state import Phase
from provider.protocols.cluster import SERVICE
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.cluster import unreachable

pytestmark = pytest.mark.virtual_time
MANY = 500
_LISTS = 32


async def _many(count: int, *, resync_s: float = 300) -> World:
    """As many leases that run, and a provider that starts."""
    world = World(resync_s=resync_s)
    for dseq in range(1, count + 1):
        one = World()
        await one.run(a_lease(dseq), a_group())
        world.cluster.objects |= one.cluster.objects
        world.engine.state |= one.engine.state
        world.chain.lease_states |= one.chain.lease_states
    return world


async def _start(world: World, count: int) -> Counter[str]:
    """Run until all leases were looked at, then a little longer. Returns how often the cluster was asked."""
    asked: Counter[str] = Counter()
    world.cluster.before = lambda operation, kind, name: asked.update([operation, f"{operation} {kind}"])
    task = asyncio.create_task(world.loop.run())
    try:
        async with asyncio.timeout(180):
            while sum(status.phase is Phase.RUNNING for status in world.loop.statuses.values()) < count:
                await asyncio.sleep(0.05)
        await world.elapse(0.7)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return asked


async def test_a_start_with_500_unchanged_leases_runs_no_process_and_lists_each_kind_a_few_times() -> None:
    world = await _many(MANY)
    asked = await _start(world, MANY)
    assert world.engine.calls == []
    assert asked["get"] == asked["apply"] == asked["delete"] == 0, asked
    assert asked["list"] <= _LISTS + 16, asked  # the watches begin with one each
    assert world.chain.calls.count("lease") <= MANY, "each lease was looked at once"


async def test_what_changed_while_we_were_down_is_found_by_the_same_lists() -> None:
    world = await _many(5)
    gone = a_lease(3)
    world.cluster.remove((SERVICE.api_version, SERVICE.kind, namespace_name(gone), "web"))
    await _start(world, 5)
    assert world.engine.calls == [(Operation.REFRESH, namespace_name(gone)), (Operation.UP, namespace_name(gone))]
    assert world.cluster.find(SERVICE, "web", namespace_name(gone)) is not None


async def test_a_change_between_a_list_and_its_watch_is_found_by_the_next_lists() -> None:
    world = await _many(3, resync_s=1)
    changed = namespace_name(a_lease(2))
    seen: list[str] = []

    def remove(operation: str, kind: str, name: str) -> None:
        """At the last of the lists that are read."""
        if operation == "list" and kind == "RoleBinding" and not seen:
            seen.append(kind)
            world.cluster.remove((SERVICE.api_version, SERVICE.kind, changed, "web"))

    world.cluster.before = remove
    task = asyncio.create_task(world.loop.run())
    try:
        async with asyncio.timeout(20):
            while (Operation.UP, changed) not in world.engine.calls:
                await asyncio.sleep(0.05)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert {stack for _, stack in world.engine.calls} == {changed}


async def test_a_list_that_fails_costs_only_the_short_way() -> None:
    world = await _many(3)
    failed: list[str] = []

    def fail(operation: str, kind: str, name: str) -> None:
        if operation == "list" and kind == "Service" and not failed:
            failed.append(kind)
            raise unreachable()

    world.cluster.before = fail
    task = asyncio.create_task(world.loop.run())
    try:
        async with asyncio.timeout(20):
            while sum(status.phase is Phase.RUNNING for status in world.loop.statuses.values()) < 3:
                await asyncio.sleep(0.05)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert world.engine.calls == []
