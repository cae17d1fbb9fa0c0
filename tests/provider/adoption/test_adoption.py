"""Recorded clusters of the Go provider are taken over: nothing changes, and everything works after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lease.ids import namespace_name
from lease.manifest import Group
from lease.spec import FORM
from provider.lifecycle.serving.upkeep import ADOPTED
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, SERVICE, STATEFUL_SET
from stacks.common.results import Operation
from tests.components.recorded import load
from tests.provider.adoption.go_cluster import ADDRESS, GoWorld, adoptable, stored_group
from tests.world.cluster import Key

NAMES = adoptable()
SOME = ("base-simple-v2.0", "ip-endpoint-two-ports", "persistent-postgres-accept", "base-simple-v2.0.gatewayapi")


def with_image(group: Group, image: str) -> Group:
    """The manifest in which the first service has another image."""
    services = group.services or ()
    return replace(group, services=(replace(services[0], image=image), *services[1:]))


def changed(world: GoWorld, before: dict[Key, object]) -> set[tuple[str, str]]:
    """Kind and name of each object that is new, gone or different."""
    after = world.cluster.objects
    return {(key[1], key[3]) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_lease_is_adopted_and_only_what_the_plan_says_is_added(name: str) -> None:
    """The way back: the Go provider finds everything as it left it."""
    world = GoWorld(load(name))
    before = world.objects()
    plan = await world.adopt()
    assert (plan.differences, plan.notes) == ((), ())
    world.restart()
    outcome = await world.converge(world.lease)
    noted = {("ProviderLeasedIP", claim.name) for claim in plan.addresses}
    assert (outcome.phase, outcome.reason.startswith(ADOPTED)) == (Phase.RUNNING, True), outcome
    assert changed(world, before) == {("Secret", f"applied-{plan.name}"), *noted}
    for key, obj in before.items():
        if key[1] == "ProviderLeasedIP":
            now = dict(world.cluster.objects[key])
            assert now.pop("status") == {"address": ADDRESS, "state": "assigned"}
            assert now["spec"] == obj["spec"]
            assert now["metadata"]["labels"] == obj["metadata"]["labels"]
    assert world.engine.calls == []


@pytest.mark.parametrize("name", SOME)
async def test_the_next_manifest_of_the_tenant_is_applied_over_what_was_found(name: str) -> None:
    world = GoWorld(load(name))
    plan = await world.adopt()
    await world.converge(world.lease)
    await world.send(world.lease, with_image(stored_group(world), "nginx:new"))
    outcome = await world.converge(world.lease)
    applied = world.applied(world.lease).spec
    assert outcome.phase is Phase.RUNNING, outcome
    assert applied is not None
    assert (applied.form, applied.found) == (FORM, ())
    assert world.image(world.lease) == "nginx:new"
    assert len(world.cluster.taken) >= plan.objects  # the fields of every object were taken over first
    assert [call for call in world.engine.calls if call[0] is Operation.UP] == [(Operation.UP, plan.name)]


@pytest.mark.parametrize("name", SOME)
async def test_the_end_of_an_adopted_lease_leaves_nothing(name: str) -> None:
    world = GoWorld(load(name))
    await world.adopt()
    await world.converge(world.lease)
    world.chain.put_lease(world.lease, LeaseState.CLOSED)
    outcome = await world.converge(world.lease)
    assert outcome.phase is Phase.CLOSED, outcome
    assert world.leftovers(world.lease) == []
    assert "default" in world.pools()  # the operator's


async def test_the_same_manifest_sent_again_rolls_nothing() -> None:
    """As under the Go provider (recordings/objects README, point 1), though the stored form lacks what was sent."""
    world = GoWorld(load("base-simple-v2.0"))
    await world.adopt()
    await world.converge(world.lease)
    before = world.objects()
    await world.send(world.lease, stored_group(world))
    world.reconciler.manifest_sent(world.lease)
    outcome = await world.converge(world.lease)
    assert outcome.phase is Phase.RUNNING
    assert changed(world, before) == {("Manifest", namespace_name(world.lease))}
    assert world.engine.calls == []


async def test_a_leased_address_stays_in_the_operators_pool_through_an_update() -> None:
    """A second pool with the address would be refused by MetalLB, and the Service would lose its address."""
    world = GoWorld(load("ip-endpoint-two-ports"))
    await world.adopt()
    await world.send(world.lease, with_image(stored_group(world), "nginx:new"))
    await world.converge(world.lease)
    assert world.pools() == ["default"]
    services = await world.cluster.list(SERVICE, namespace=namespace_name(world.lease))
    balanced = [obj for obj in services if obj["spec"]["type"] == "LoadBalancer"]
    assert len(balanced) == 2
    for service in balanced:
        annotations = service["metadata"]["annotations"]
        assert annotations["metallb.io/address-pool"] == "default"
        assert annotations["metallb.io/loadBalancerIPs"] == ADDRESS


async def test_volumes_of_an_adopted_lease_are_those_of_the_next_version() -> None:
    world = GoWorld(load("persistent-postgres-accept"))
    await world.adopt()
    before = await world.cluster.list(STATEFUL_SET)
    await world.send(world.lease, with_image(stored_group(world), "postgres:new"))
    outcome = await world.converge(world.lease)
    assert outcome.phase is Phase.RUNNING, outcome
    after = await world.cluster.list(STATEFUL_SET)
    assert [obj["metadata"]["uid"] for obj in before] == [obj["metadata"]["uid"] for obj in after]


async def test_an_update_that_is_refused_leaves_the_lease_as_it_was_found() -> None:
    world = GoWorld(load("base-simple-v2.0"))
    await world.adopt()
    await world.converge(world.lease)
    world.engine.refused["nginx:bad"] = "Deployment web: admission webhook denied the request"
    template = (await world.cluster.list(DEPLOYMENT))[0]["spec"]["template"]
    await world.send(world.lease, with_image(stored_group(world), "nginx:bad"))
    outcome = await world.converge(world.lease)
    assert outcome.phase is Phase.UPDATE_FAILED
    assert (await world.cluster.list(DEPLOYMENT))[0]["spec"]["template"] == template
    applied = world.applied(world.lease).spec
    assert applied is not None and applied.found


async def test_a_lost_disk_after_the_adoption_loses_nothing() -> None:
    world = GoWorld(load("base-simple-v2.0"))
    await world.adopt()
    world.engine.lose_state()
    world.restart()
    before = world.objects()
    assert (await world.converge(world.lease)).phase is Phase.RUNNING
    assert changed(world, before) == set()
    await world.send(world.lease, with_image(stored_group(world), "nginx:new"))
    assert (await world.converge(world.lease)).phase is Phase.RUNNING
    assert world.image(world.lease) == "nginx:new"


async def test_what_somebody_changes_after_the_adoption_is_reported_and_stays_until_the_next_update() -> None:
    world = GoWorld(load("base-simple-v2.0"))
    await world.adopt()
    found = (await world.cluster.list(DEPLOYMENT))[0]
    found["spec"]["replicas"] = 5
    world.cluster.put(found)
    world.restart()
    outcome = await world.converge(world.lease)
    assert "spec.replicas" in outcome.reason
    assert (await world.cluster.list(DEPLOYMENT))[0]["spec"]["replicas"] == 5
    assert world.engine.calls == []


async def test_a_lease_that_was_not_adopted_is_taken_from_its_stored_manifest_and_keeps_its_pods() -> None:
    """An operator who starts Lessor without `lessor adopt`: policies change, what would roll a pod does not."""
    recording = load("ip-endpoint-two-ports")
    world = GoWorld(recording)
    stored = world.cluster.find(MANIFEST, namespace_name(world.lease), "lease")
    assert stored is not None
    stored["metadata"]["resourceVersion"] = recording["manifest_resource_version"]
    template = (await world.cluster.list(DEPLOYMENT))[0]["spec"]["template"]
    outcome = await world.converge(world.lease)
    assert outcome.phase is Phase.RUNNING, outcome
    assert (await world.cluster.list(DEPLOYMENT))[0]["spec"]["template"] == template
    assert ("Deployment", "app") in world.cluster.taken
    assert world.pools() == ["default"]
    services = await world.cluster.list(SERVICE, namespace=namespace_name(world.lease))
    leased = [obj for obj in services if obj["spec"]["type"] == "LoadBalancer"]
    assert {obj["metadata"]["annotations"]["metallb.io/loadBalancerIPs"] for obj in leased} == {ADDRESS}


async def test_recreate_moves_an_adopted_lease_to_the_objects_of_lessor() -> None:
    world = GoWorld(load("base-simple-v2.0"))
    await world.adopt()
    await world.converge(world.lease)
    assert await world.reconciler.recreate(world.lease)
    await world.converge(world.lease)
    applied = world.applied(world.lease).spec
    assert applied is not None
    assert (applied.form, applied.found) == (FORM, ())
