"""The loop around reconcile: what makes it look, in which order, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.bus import CHAIN_BLOCK, LEASE_CHANGED, MANIFEST_ACCEPTED, MemoryBus
from provider.chain.events import LEASE_CLOSED, LEASE_RECLAIM_STARTED
from provider.claims.hostnames import host_object
from provider.errors import ChainError, ClusterError, Conflict
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.queue import LeaseQueue
from provider.lifecycle.sources import find_leases
from provider.lifecycle.state import Phase, tenant_text
from provider.lifecycle.watches import Watcher
from provider.protocols.chain import Block, LeaseState
from provider.protocols.cluster import DEPLOYMENT, PROVIDER_HOST, PROVIDER_LEASED_IP
from stacks.common.results import Operation, StackResult
from tests.provider.lifecycle.world import NEVER_S, OTHER, PROVIDER, World, a_group, a_lease
from tests.world.chain import event_of
from tests.world.cluster import unreachable
from tests.world.engine import Fault, Killed
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

L = a_lease()
_STEP_S, _STEPS = 0.5, 4000
"""How often controllers work in virtual time, and how often at most."""


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.loop.run())
    try:
        await asyncio.sleep(0)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(world: World, condition: Callable[[], bool], *, ready: bool = True) -> None:
    """Controllers work while we wait."""
    for _ in range(_STEPS):
        if condition():
            return
        world.cluster.settle(ready=ready)
        await world.elapse(_STEP_S)
    raise AssertionError(f"not within {_STEPS * _STEP_S:g} s: {dict(world.loop.statuses)}")


def phase(world: World, lease: LeaseId = L) -> Phase | None:
    status = world.loop.statuses.get(lease)
    return status.phase if status else None


async def test_a_lease_from_manifest_to_nothing_by_events_alone() -> None:
    world = World(resync_s=NEVER_S)
    async with running(world):
        await world.win(L)
        world.bus.publish(LEASE_CHANGED, L)
        await until(world, lambda: phase(world) is Phase.WAITING_FOR_MANIFEST)
        await world.send(L, a_group(hosts=["a.example.com"], ip="meow"))
        world.bus.publish(MANIFEST_ACCEPTED, L)
        await until(world, lambda: phase(world) is Phase.RUNNING)
        world.chain.put_lease(L, LeaseState.CLOSED)
        world.bus.publish(CHAIN_BLOCK, Block(world.chain.height + 1, (event_of(LEASE_CLOSED, L),)))
        await until(world, lambda: phase(world) is None and not world.leftovers(L))
    assert world.pools() == [] and [op for op, _ in world.engine.calls] == [Operation.UP, Operation.DESTROY]


async def test_a_check_begins_when_it_may() -> None:
    world = World(resync_s=NEVER_S)
    now = asyncio.Event()

    async def may_begin() -> None:
        await now.wait()

    world.loop = LeaseLoop(world.reconciler, world.parts, chain=world.chain, clock=world.clock, may_begin=may_begin)
    async with running(world):
        await world.win(L)
        await world.send(L, a_group())
        world.bus.publish(MANIFEST_ACCEPTED, L)
        await world.elapse(60)
        assert phase(world) is None
        now.set()
        await until(world, lambda: phase(world) is Phase.RUNNING)


async def test_the_start_lists_nothing_before_it_may_begin_and_loses_no_news_of_that_time() -> None:
    world = World(resync_s=NEVER_S)
    now, asked = asyncio.Event(), list[str]()
    world.cluster.before = lambda operation, kind, name: asked.append(f"{operation} {kind}")

    async def may_begin() -> None:
        await now.wait()

    world.loop = LeaseLoop(world.reconciler, world.parts, chain=world.chain, clock=world.clock, may_begin=may_begin)
    async with running(world):
        await world.elapse(60)
        assert asked == [] and world.chain.calls == []
        await world.win(L)
        world.bus.publish(LEASE_CHANGED, L)
        now.set()
        await until(world, lambda: phase(world) is Phase.WAITING_FOR_MANIFEST)


async def test_a_manifest_is_noticed_by_the_watch_when_its_event_is_lost() -> None:
    world = World(resync_s=NEVER_S)
    await world.win(L)
    async with running(world):
        await until(world, lambda: phase(world) is Phase.WAITING_FOR_MANIFEST)
        await world.send(L, a_group())
        await until(world, lambda: phase(world) is Phase.RUNNING)


async def test_everything_is_found_at_start_and_what_ended_meanwhile_is_ended() -> None:
    world = World()
    gone, kept, late = a_lease(1), a_lease(2), a_lease(3)
    for lease in (gone, kept):
        await world.run(lease, a_group())
    await world.win(late, a_group())
    world.chain.put_lease(gone, LeaseState.CLOSED)
    world.restart()
    async with running(world):
        await until(world, lambda: phase(world, kept) is Phase.RUNNING and phase(world, late) is Phase.RUNNING)
        await until(world, lambda: not world.leftovers(gone))
    assert world.image(kept) == "nginx:1"


def fail_once(world: World, error: BaseException) -> None:
    """When the first advertisement is to be deleted."""

    def before(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("delete", "L2Advertisement"):
            world.cluster.before = lambda *_: None
            raise error

    world.cluster.before = before


@pytest.mark.parametrize("error", [Conflict("https://fake", "it has changed", status=409), unreachable()])
@pytest.mark.parametrize("ends", [False, True])
async def test_pools_that_stayed_when_their_address_was_given_back_go_at_the_next_check_of_all_leases(
    error: ClusterError, ends: bool
) -> None:
    world = World()
    await world.run(L, a_group(ip="meow"))
    async with running(world):
        await until(world, lambda: phase(world) is Phase.RUNNING)
        fail_once(world, error)
        if ends:
            world.chain.put_lease(L, LeaseState.CLOSED)
        else:
            await world.send(L, a_group())
        world.bus.publish(LEASE_CHANGED, L)
        await until(world, lambda: world.cluster.named(PROVIDER_LEASED_IP) == [])
        await until(world, lambda: world.pools() == [])
        assert phase(world) is (None if ends else Phase.RUNNING)


async def test_pools_that_stayed_because_of_a_crash_go_at_the_next_start() -> None:
    world = World(resync_s=1e6)
    await world.run(L, a_group(ip="meow"))
    await world.send(L, a_group())
    fail_once(world, Killed())
    with pytest.raises(Killed):
        await world.converge(L)
    world.restart()
    await world.converge(L)
    assert len(world.pools()) == 2 and world.cluster.named(PROVIDER_LEASED_IP) == []
    async with running(world):
        await until(world, lambda: world.pools() == [])


async def test_a_start_leaves_the_pool_of_a_running_lease_whose_claim_was_deleted_meanwhile() -> None:
    """The claim is written again, and its address is the one of the pool."""
    world = World()
    await world.run(a_lease(2), a_group(ip="first"))
    spec = await world.run(L, a_group(ip="meow", ip_port=81))
    world.chain.put_lease(a_lease(2), LeaseState.CLOSED)
    await world.converge(a_lease(2))
    (claim,) = world.cluster.named(PROVIDER_LEASED_IP)
    world.cluster.remove((PROVIDER_LEASED_IP.api_version, PROVIDER_LEASED_IP.kind, "lease", claim))
    world.restart()
    deleted: list[str] = []
    world.cluster.before = lambda operation, kind, name: deleted.append(kind) if operation == "delete" else None
    world.chain.lies = [ChainError("https://node", "away") for _ in range(3)]
    async with running(world):
        await until(world, lambda: phase(world) is Phase.RUNNING and bool(world.cluster.named(PROVIDER_LEASED_IP)))
    assert deleted == [] and world.applied(L).spec == spec


async def test_stopping_the_loop_removes_nothing() -> None:
    world = World()
    await world.win(L, a_group())
    async with running(world):
        await until(world, lambda: phase(world) is Phase.RUNNING)
    assert world.image(L) == "nginx:1" and len(world.engine.calls) == 1


async def test_another_providers_lease_is_ignored() -> None:
    world = World()
    theirs = LeaseId(OTHER, 1, 1, 1, OTHER)
    async with running(world):
        world.bus.publish(LEASE_CHANGED, theirs)
        world.loop.check(theirs)
        await world.elapse(50)
    assert world.chain.calls.count("lease") == 0


@pytest.mark.parametrize(("kind", "ours"), [(LEASE_CLOSED, True), (LEASE_RECLAIM_STARTED, True), (LEASE_CLOSED, False)])
async def test_the_chain_is_asked_about_a_lease_of_this_provider_that_a_block_names(kind: str, ours: bool) -> None:
    world = World()
    lease = L if ours else LeaseId(OTHER, 1, 1, 1, OTHER)
    async with running(world):
        await asyncio.sleep(0.02)
        assert world.chain.calls.count("lease") == 0
        world.bus.publish(CHAIN_BLOCK, Block(world.chain.height + 1, (event_of(kind, lease),)))
        await asyncio.sleep(0.05)
        assert bool(world.chain.calls.count("lease")) is ours


async def test_a_stuck_lease_does_not_hold_up_the_others() -> None:
    world = World(concurrency=2)
    stuck, other = a_lease(1), a_lease(2)
    world.engine.faults.append(Fault(hang=True))
    await world.win(stuck, a_group())
    async with running(world):
        await until(world, lambda: len(world.engine.calls) == 1)
        await world.win(other, a_group())
        world.bus.publish(MANIFEST_ACCEPTED, other)
        await until(world, lambda: phase(world, other) is Phase.RUNNING)


async def test_the_traces_of_a_failed_try_do_not_start_the_next_one() -> None:
    world = World()
    world.engine.faults.extend([Fault(error="connection refused", objects=number) for number in (1, 2, 3)])
    await world.win(L, a_group())
    times: list[float] = []
    up = world.engine.up

    async def timed(spec: LeaseSpec, **how: Any) -> StackResult:
        times.append(world.clock.monotonic())
        return await up(spec, **how)

    world.engine.up = timed  # type: ignore[method-assign]
    async with running(world):
        await until(world, lambda: phase(world) is Phase.RUNNING)
    assert len(times) == 4
    assert all(later - earlier >= pause for earlier, later, pause in zip(times, times[1:], (0.5, 1, 2), strict=False))


async def test_a_new_manifest_does_not_wait_out_the_pause_of_the_one_before() -> None:
    world = World()
    await world.win(L, a_group())
    for _ in range(6):
        world.engine.faults.append(Fault(error="connection refused"))
    pauses = [(await world.check(L)).again_in or 0 for _ in range(6)]
    assert pauses[-1] > 8 > pauses[0]
    world.loop._handle(L)
    assert world.reconciler.statuses[L].attempts == 0
    world.engine.faults.append(Fault(error="connection refused"))
    assert ((await world.check(L)).again_in or 0) <= 1, "trouble with what was before does not count"
    world.loop._handle(a_lease(99))
    assert a_lease(99) not in world.reconciler.statuses


async def test_only_a_change_of_there_or_ready_is_worth_a_check() -> None:
    world = World()
    spec = await world.run(L, a_group())
    looks: list[tuple[LeaseId, float]] = []
    watcher = Watcher(world.cluster, records="lease", check=lambda lease, after: looks.append((lease, after)))
    watcher.know(L)
    task = asyncio.create_task(watcher.follow(DEPLOYMENT))
    workload = world.cluster.workload(spec.namespace, spec.services[0])
    assert workload is not None
    key = ("apps/v1", "Deployment", spec.namespace, "web")
    counts = []
    for change in (
        lambda: None,
        lambda: world.cluster.put({**workload, "status": {"availableReplicas": 1, "note": "x"}}, status=True),
        lambda: world.cluster.make_ready(workload, 0),
        lambda: world.cluster.make_ready(workload, 1),
        lambda: world.cluster.remove(key),
    ):
        looks.clear()
        change()
        await world.elapse(10)
        counts.append(bool(looks))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert counts == [True, False, True, True, True]


async def test_an_unreadable_object_in_a_watch_stops_nothing() -> None:
    world = World()
    broken = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "labels": {"akash.network": "true"}},
    }
    world.cluster.put({**broken, "spec": {"replicas": "many"}})
    looks: list[LeaseId] = []
    watcher = Watcher(world.cluster, records="lease", check=lambda lease, after: looks.append(lease))
    watcher.know(L)
    task = asyncio.create_task(watcher.follow(DEPLOYMENT))
    await asyncio.sleep(0)
    await world.run(L, a_group())
    await world.elapse(10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert L in looks


async def test_a_workload_that_gets_ready_or_not_is_noticed() -> None:
    world = World(resync_s=NEVER_S)
    async with running(world):
        await world.win(L, a_group())
        world.bus.publish(MANIFEST_ACCEPTED, L)
        await until(world, lambda: phase(world) is Phase.RUNNING)
        workload = world.cluster.workload(namespace_name(L), world.engine.specs[-1].services[0])
        assert workload is not None
        world.cluster.make_ready(workload, 0)
        await until(world, lambda: phase(world) is Phase.DEGRADED, ready=False)


async def test_a_hostname_moved_away_is_let_go_by_its_old_holder() -> None:
    world = World(resync_s=NEVER_S)
    one, two = a_lease(1), a_lease(2)
    spec = await world.run(one, a_group(hosts=["a.example.com"]))
    await world.run(two, a_group(hosts=["a.example.com", "b.example.com"]))
    async with running(world):
        await until(world, lambda: phase(world, one) is Phase.RUNNING and phase(world, two) is Phase.RUNNING)
        await world.cluster.apply(host_object(two, spec.hostnames[0], namespace="lease"))
        await until(world, lambda: world.applied(one).spec.hostnames == ())  # type: ignore[union-attr]
        await until(world, lambda: len(world.applied(two).spec.hostnames) == 2)  # type: ignore[union-attr]
    claim = world.cluster.find(PROVIDER_HOST, "a.example.com", "lease")
    assert claim is not None and claim["spec"]["dseq"] == 2


async def test_a_new_block_is_taken_as_the_chance_to_prove_an_end() -> None:
    world = World()
    await world.run(L, a_group())
    world.chain.put_lease(L, LeaseState.CLOSED)
    world.chain.rises = False
    async with running(world):
        await until(world, lambda: L in world.reconciler.unproven())
        world.chain.rises = True
        world.bus.publish(CHAIN_BLOCK, Block(world.chain.height + 1, ()))
        await until(world, lambda: not world.leftovers(L))


async def test_after_lost_events_every_lease_is_checked() -> None:
    world = World()
    world.bus = MemoryBus(queue_size=2)
    world.restart()
    async with running(world):
        await world.elapse(20)
        world.chain.put_lease(L, LeaseState.ACTIVE)
        for height in range(5):
            world.bus.publish(CHAIN_BLOCK, Block(height, ()))
        await until(world, lambda: phase(world) is Phase.WAITING_FOR_MANIFEST)


async def test_leases_are_found_by_whatever_they_left() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    world.chain.put_lease(L, LeaseState.CLOSED)
    traces = [key for key in world.cluster.objects if key[1] in ("Manifest", "Secret", "ProviderHost", "Namespace")]
    for kept in traces:
        left = World()
        left.cluster.objects = {
            key: obj for key, obj in world.cluster.objects.items() if key == kept or key[3] == "lease"
        }
        found = await find_leases(left.chain, left.cluster, left.engine, config=left.config)  # type: ignore[arg-type]
        assert found.leases == ({L} if "lease.id.dseq" in str(world.cluster.objects[kept]) else set())


@pytest.mark.parametrize("state", LeaseState)
async def test_the_chain_names_the_leases_that_are_alive(state: LeaseState) -> None:
    world = World()
    world.chain.put_lease(L, state)
    found = await find_leases(world.chain, world.cluster, world.engine, config=world.config)  # type: ignore[arg-type]
    assert found.leases == ({L} if state in (LeaseState.ACTIVE, LeaseState.RECLAIMING) else set())


@pytest.mark.parametrize("state", [LeaseState.CLOSED, LeaseState.INSUFFICIENT_FUNDS])
async def test_a_stack_that_nothing_else_explains_is_searched_among_ended_leases_or_reported(state: LeaseState) -> None:
    world = World()
    world.chain.put_lease(L, state)
    world.engine.state = {namespace_name(L): {}, "somebody-elses": {}}
    found = await find_leases(world.chain, world.cluster, world.engine, config=world.config)  # type: ignore[arg-type]
    assert found.leases == {L} and found.unknown_stacks == ("somebody-elses",)


async def test_an_unknown_stack_is_logged_once() -> None:
    """The list of what waits for an operator has it as long as it is there; a line every five minutes hides others."""
    world = World()
    world.engine.state = {"somebody-elses": {}}
    with capture_logs() as lines:
        task = asyncio.create_task(world.loop.run())
        await world.elapse(2000)
        task.cancel()
    assert [line["unknown_stacks"] for line in lines if line["event"] == "lifecycle.leases_incomplete"] == [
        ("somebody-elses",)
    ]
    assert world.loop.unknown_stacks == ("somebody-elses",)


@pytest.mark.parametrize("away", ["chain", "cluster"])
async def test_a_source_that_is_away_costs_only_what_it_alone_knows(away: str) -> None:
    world = World()
    await world.run(L, a_group())
    if away == "chain":
        world.chain.lies = [ChainError("http://node", "no answer")]
    else:

        def refuse(operation: str, kind: str, name: str) -> None:
            raise unreachable()

        world.cluster.before = refuse
    found = await find_leases(world.chain, world.cluster, world.engine, config=world.config)  # type: ignore[arg-type]
    assert found.leases == {L} and found.problems
    assert L.provider == PROVIDER


async def test_the_queue_gives_each_lease_once_and_never_twice_at_a_time() -> None:
    clock = VirtualClock()
    queue = LeaseQueue(clock)
    one, two = a_lease(1), a_lease(2)
    for after in (5.0, 2.0, 3.0):
        queue.add(one, after=after)
    queue.add(two, after=1.0)
    first, second = asyncio.create_task(queue.take()), None
    await clock.advance(1.0)
    assert await first == two
    second = asyncio.create_task(queue.take())
    await clock.advance(1.0)
    assert await second == one
    queue.add(one)
    third = asyncio.create_task(queue.take())
    await clock.advance(10.0)
    assert not third.done()
    queue.done(one)
    assert await third == one and len(queue) == 2


@pytest.mark.parametrize("before", [None, "nginx:1"])
async def test_the_same_manifest_sent_again_to_a_lease_that_failed_is_tried_again(before: str | None) -> None:
    world = World()
    world.engine.refused["nginx:2"] = "exceeded quota"
    if before:
        await world.run(L, a_group(before))
    async with running(world):
        await world.win(L, a_group("nginx:2"))
        world.bus.publish(MANIFEST_ACCEPTED, L)
        failed = Phase.UPDATE_FAILED if before else Phase.FAILED
        await until(world, lambda: L in world.loop.statuses and world.loop.statuses[L].phase is failed)
        assert "or the same one again to have it tried again" in tenant_text(world.loop.statuses[L])
        tries = len(world.engine.calls)
        world.bus.publish(LEASE_CHANGED, L)
        await world.elapse(5)
        assert len(world.engine.calls) == tries, "nothing is tried again without a cause"
        del world.engine.refused["nginx:2"]
        await world.send(L, a_group("nginx:2"))
        world.bus.publish(MANIFEST_ACCEPTED, L)
        await until(world, lambda: world.loop.statuses[L].phase is Phase.RUNNING)
    assert world.image(L) == "nginx:2"
