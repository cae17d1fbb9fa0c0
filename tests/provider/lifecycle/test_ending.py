"""The order of an end, and that each of its steps may be the last before a crash."""

from __future__ import annotations

import pytest

from lease.ids import namespace_name
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import PERSISTENT_VOLUME_CLAIM
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.cluster import unreachable
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

L = a_lease()
NAME = namespace_name(L)


async def running() -> World:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    claim = {"name": "web-data-web-0", "namespace": NAME, "labels": {"akash.network": "true"}}
    world.cluster.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim})
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.check(L)
    return world


async def test_the_order_of_an_end() -> None:
    world = await running()
    seen: list[str] = []
    world.cluster.before = lambda operation, kind, name: seen.append(kind) if operation == "delete" else None
    plain_destroy = world.engine.destroy

    async def destroy(stack: str) -> object:
        seen.append("stack")
        return await plain_destroy(stack)

    world.engine.destroy = destroy  # type: ignore[method-assign,assignment]
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert seen == [
        "ProviderHost",
        "ProviderLeasedIP",
        "stack",
        "PersistentVolumeClaim",
        "L2Advertisement",
        "IPAddressPool",
        "Secret",
        "Manifest",
    ]


async def test_volume_claims_go_while_the_namespace_terminates() -> None:
    world = await running()
    await world.check(L)
    assert world.cluster.terminating(NAME)
    assert world.cluster.named(PERSISTENT_VOLUME_CLAIM) == []


async def test_records_and_reservation_stay_until_the_namespace_answers_404() -> None:
    world = await running()
    for _ in range(5):
        assert (await world.check(L)).phase is Phase.CLOSING
    assert f"Manifest {NAME}" in world.leftovers(L) and world.released == []
    world.cluster.settle()
    assert (await world.check(L)).phase is Phase.CLOSED


@pytest.mark.parametrize("call", range(24))
async def test_a_crash_at_any_call_of_an_end_still_ends_in_nothing(call: int) -> None:
    world = await running()
    left = call

    def die(operation: str, kind: str, name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    world.cluster.before = die
    for _ in range(4):
        try:
            await world.check(L)
        except Killed:
            break
        world.cluster.settle()
    world.cluster.before = lambda *_: None
    world.restart()
    world.cluster.settle()
    if world.leftovers(L):
        assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.leftovers(L) == [] and world.pools() == []


@pytest.mark.parametrize("objects", range(6))
async def test_a_destroy_that_is_killed_is_done_again(objects: int) -> None:
    world = await running()
    world.engine.faults.append(Fault(kill=True, objects=objects))
    with pytest.raises(Killed):
        await world.check(L)
    world.restart()
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.leftovers(L) == []


async def test_a_destroy_that_fails_keeps_everything_and_says_why() -> None:
    world = await running()
    world.engine.faults.append(Fault(error="dial tcp: connection refused"))
    outcome = await world.check(L)
    assert outcome.phase is Phase.CLOSING and "connection refused" in outcome.reason and outcome.retry
    assert NAME in world.engine.state and world.released == []
    assert (await world.converge(L)).phase is Phase.CLOSED


async def test_an_unreachable_cluster_during_an_end_forgets_nothing() -> None:
    world = await running()

    def away(operation: str, kind: str, name: str) -> None:
        raise unreachable()

    world.cluster.before = away
    for _ in range(5):
        assert (await world.check(L)).retry
    assert NAME in world.engine.state
    assert Operation.DESTROY not in {operation for operation, _ in world.engine.calls}
    world.cluster.before = lambda *_: None
    assert (await world.converge(L)).phase is Phase.CLOSED


async def test_a_lease_that_ended_before_its_manifest_came_gives_back_its_reservation() -> None:
    world = World()
    world.chain.put_lease(L, LeaseState.CLOSED)
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.released == [L.order] and world.engine.calls == []


async def test_ending_one_lease_touches_no_other() -> None:
    world = World()
    other = a_lease(2)
    await world.run(other, a_group(hosts=["b.example.com"], ip="purr"))
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    before = world.leftovers(other)
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.converge(L)
    assert world.leftovers(other) == before and len(world.pools()) == 2
    assert (await world.converge(other)).phase is Phase.RUNNING
