"""The rules of docs/architecture.md §2 that concern leases, each by its own words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from lease.ids import namespace_name
from provider.claims.hostnames import HostnameRules
from provider.errors import ChainError
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import IP_ADDRESS_POOL, NAMESPACE
from stacks.common.results import Operation
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease, closed, unknown
from tests.world.cluster import unreachable
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

L = a_lease()


async def test_rule_1_a_lease_the_node_does_not_know_is_never_torn_down() -> None:
    world = World()
    await world.run(L, a_group())
    world.chain.lies = [unknown(height) for height in range(50, 60)]
    for _ in range(10):
        outcome = await world.check(L)
    assert world.image(L) == "nginx:1"
    assert outcome.phase is Phase.RUNNING and "does not know this lease" in outcome.reason


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(ChainError("http://node", "no answer"), id="the node is away"),
        pytest.param(closed(L, 3), id="an older height"),
        pytest.param(closed(L, 999, "othernet-1"), id="another chain"),
        pytest.param(unknown(999), id="not found"),
    ],
)
async def test_rule_1_no_other_answer_than_closed_ends_a_lease(lie: object) -> None:
    world = World()
    await world.run(L, a_group())
    world.chain.lies = [lie] * 5  # type: ignore[list-item]
    for _ in range(5):
        await world.check(L)
    assert world.image(L) == "nginx:1"
    assert Operation.DESTROY not in {operation for operation, _ in world.engine.calls}


async def test_rule_1_a_restart_tears_nothing_down() -> None:
    world = World()
    await world.run(L, a_group())
    before = world.cluster.writes, len(world.engine.calls)
    world.restart()
    await world.converge(L)
    assert (world.cluster.writes, len(world.engine.calls)) == before


async def test_rule_1_an_unreachable_api_server_tears_nothing_down_and_is_named() -> None:
    world = World()
    await world.run(L, a_group())

    def away(operation: str, kind: str, name: str) -> None:
        raise unreachable()

    world.cluster.before = away
    outcome = await world.check(L)
    assert outcome.retry and "https://fake" in outcome.reason
    world.cluster.before = lambda *_: None
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert len(world.engine.calls) == 1


async def test_rule_1_unready_workloads_tear_nothing_down() -> None:
    world = World()
    spec = await world.run(L, a_group())
    workload = world.cluster.workload(spec.namespace, spec.services[0])
    assert workload is not None
    world.cluster.make_ready(workload, 0)
    for _ in range(100):
        outcome = await world.check(L)
    assert outcome.phase is Phase.DEGRADED and outcome.reason == "service web: 0 of 1 ready"
    assert len(world.engine.calls) == 1


async def test_rule_2_a_closed_lease_leaves_nothing_behind() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    assert world.leftovers(L) and world.pools()
    world.chain.put_lease(L, LeaseState.CLOSED)
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.leftovers(L) == [] and world.pools() == []
    assert world.released == [L.order]


async def test_rule_2_holds_after_the_stack_state_was_lost() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    world.engine.lose_state()
    world.chain.put_lease(L, LeaseState.INSUFFICIENT_FUNDS)
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.leftovers(L) == [] and world.pools() == []


async def test_rule_3_losing_the_local_disk_loses_no_lease() -> None:
    world = World()
    before = await world.run(L, a_group("nginx:1", ip="meow"))
    world.engine.lose_state()
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.applied(L).spec == before
    await world.send(L, a_group("nginx:2", ip="meow"))
    await world.converge(L)
    assert world.image(L) == "nginx:2"
    after = world.applied(L).spec
    assert after is not None and after.first_resource_version == before.first_resource_version
    assert after.leased_ips == before.leased_ips


@pytest.mark.parametrize("fault", [None, Fault(kill=True, objects=2), Fault(error="connection refused", objects=2)])
async def test_rule_3_an_update_after_the_loss_removes_what_it_drops(fault: Fault | None) -> None:
    world = World()
    await world.run(L, a_group("nginx:1", hosts=["old.example.com"]))
    world.engine.lose_state()
    world.restart()
    await world.send(L, a_group("nginx:2", hosts=["new.example.com"]))
    world.engine.faults.append(fault)
    with suppress(Killed):
        await world.check(L)
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.image(L) == "nginx:2"
    assert [key[3] for key in world.cluster.objects if key[1] == "Ingress"] == ["new.example.com"]


async def test_rule_5_a_failed_update_leaves_the_previous_version_running_and_says_why() -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.engine.refused["bad:1"] = 'Deployment "web" is invalid: spec.template'
    await world.send(L, a_group("bad:1"))
    outcome = await world.converge(L)
    assert world.image(L) == "nginx:1"
    assert outcome.phase is Phase.UPDATE_FAILED and "is invalid" in outcome.reason


async def test_rule_5_a_failed_update_is_retried_only_when_something_changed() -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.engine.refused["bad:1"] = "admission webhook denied the request"
    await world.send(L, a_group("bad:1"))
    await world.converge(L)
    calls = len(world.engine.calls)
    for _ in range(10):
        await world.check(L)
    world.restart()
    await world.check(L)
    assert len(world.engine.calls) == calls
    await world.send(L, a_group("nginx:3"))
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.image(L) == "nginx:3"


async def test_rule_5_a_fault_of_the_provider_is_tried_again_with_growing_pauses() -> None:
    world = World()
    await world.win(L, a_group())
    world.engine.faults.extend([Fault(error="dial tcp 127.0.0.1:6443: connect: connection refused")] * 6)
    pauses = [(await world.check(L)).again_in or 0.0 for _ in range(6)]
    assert all(2 ** (n - 1) <= pause * 2 <= 2 ** (n + 1) for n, pause in enumerate(pauses))
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_rule_6_every_stuck_lease_has_a_reason() -> None:
    world = World(ip_ranges=())
    stuck = {
        a_lease(1): None,
        a_lease(2): a_group(ip="meow"),
        a_lease(3): a_group(hosts=["blocked.example.net"]),
        a_lease(4): a_group("bad:1"),
    }
    world.config = replace(world.config, hostnames=HostnameRules(("blocked.example.net",)))
    world.restart()
    world.engine.refused["bad:1"] = "exceeded quota"
    for lease, group in stuck.items():
        await world.win(lease, group)
        for _ in range(3):
            await world.check(lease)
    reasons = {lease.dseq: status.reason for lease, status in world.reconciler.statuses.items()}
    assert "manifest" in reasons[1]
    assert "no free address" in reasons[2] and "ip-ranges" in reasons[2]
    assert "blocked by this provider" in reasons[3]
    assert "exceeded quota" in reasons[4]


async def test_rule_6_a_namespace_that_does_not_go_names_what_holds_it() -> None:
    world = World()
    await world.run(L, a_group())
    world.cluster.stuck[namespace_name(L)] = "Some content in the namespace has finalizers remaining: x.io/y in 1 pvc"
    world.chain.put_lease(L, LeaseState.CLOSED)
    for _ in range(5):
        outcome = await world.check(L)
        world.cluster.settle()
    assert outcome.phase is Phase.CLOSING and "x.io/y" in outcome.reason
    assert world.released == []
    world.cluster.stuck.clear()
    world.cluster.settle()
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.cluster.find(NAMESPACE, namespace_name(L)) is None


async def test_a_load_balancer_that_does_not_go_holds_its_address_until_it_is_gone() -> None:
    """Field problem I7: nobody takes the finalizer off its Service while the controller of a cloud is away."""
    world, other = World(), replace(a_lease(2), owner=OTHER)
    await world.run(L, a_group(ip="meow"))
    space = namespace_name(L)
    service = "service.kubernetes.io/load-balancer-cleanup in 1 resource instances: services. has 1 resource instances"
    world.cluster.stuck[space] = f"Some content in the namespace has finalizers remaining: {service}"
    (held,) = pool_addresses(world)
    world.chain.put_lease(L, LeaseState.CLOSED)
    for _ in range(5):
        outcome = await world.check(L)
        world.cluster.settle()
    assert (
        outcome.phase is Phase.CLOSING and "load-balancer-cleanup" in outcome.reason and "services." in outcome.reason
    )
    await world.run(other, a_group(ip="meow"))
    assert held in pool_addresses(world) and len(pool_addresses(world)) == 2, "the next tenant has another address"

    world.cluster.stuck.clear()
    world.cluster.settle()
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert held not in pool_addresses(world), "it can be leased again"


def pool_addresses(world: World) -> set[str]:
    pools = [obj for key, obj in world.cluster.objects.items() if key[1] == IP_ADDRESS_POOL.kind]
    return {text for pool in pools for text in pool["spec"]["addresses"]}
