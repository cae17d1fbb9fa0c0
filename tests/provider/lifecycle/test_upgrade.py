"""What runs was made by other code: brought up to date without a pod replaced (issue "life of a lease", upgrades)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lease.ids import namespace_name
from lease.manifest import Group, Params
from lease.spec import BUILDER_VERSION, LeaseSpec
from provider.lifecycle.serving.upkeep import PENDING
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Phase
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, SECRET, SERVICE, STATEFUL_SET
from provider.records.applied import Applied, applied_name, applied_object, read_applied
from provider.records.manifests import ManifestRecord, read_manifest
from stacks.common.priority import Priority
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.engine import Fault

pytestmark = pytest.mark.virtual_time

LEASE = a_lease()
SPACE = namespace_name(LEASE)


def _workload(world: World) -> dict[str, Any]:
    found = world.cluster.find(DEPLOYMENT, "web", SPACE) or world.cluster.find(STATEFUL_SET, "web", SPACE)
    assert found is not None
    return found


def _template(world: World) -> str:
    """What a pod is made from; another one rolls it."""
    return json.dumps(_workload(world)["spec"]["template"], sort_keys=True)


async def _of_the_previous_builder(world: World, **group: Any) -> LeaseSpec:
    """A golden cluster of a builder that ran containers otherwise, had no Service's label, and said so."""
    spec = await world.run(LEASE, a_group(**group))
    old = spec.model_copy(update={"builder_version": BUILDER_VERSION - 1})
    workload = _workload(world)
    pod = workload["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = 5
    pod["containers"][0].setdefault("env", []).append({"name": "OLD", "value": "hunter22"})
    pod["securityContext"]["runAsNonRoot"] = True
    service = world.cluster.find(SERVICE, "web", SPACE)
    assert service is not None
    service["metadata"]["labels"]["old"] = "label"
    for obj in (workload, service):
        world.cluster.put(obj)
        key = (obj["apiVersion"], obj["kind"], SPACE, "web")
        world.engine.state[SPACE][key] = {name: value for name, value in obj.items() if name != "status"}
    record = world.applied(LEASE)
    world.cluster.put(applied_object(LEASE, Applied(old, record.manifest_hash, record.withheld), namespace="lease"))
    world.engine.calls.clear()
    world.restart()
    return old


@pytest.mark.parametrize("volume", [0, 1 << 30], ids=["deployment", "stateful set"])
async def test_an_upgraded_lessor_brings_everything_up_to_date_but_replaces_no_pod(volume: int) -> None:
    world = World()
    await _of_the_previous_builder(world, volume_bytes=volume)
    before, uid = _template(world), _workload(world)["metadata"]["uid"]
    outcome = await world.converge(LEASE)
    assert outcome.phase is Phase.RUNNING
    assert _template(world) == before
    assert _workload(world)["metadata"]["uid"] == uid
    assert world.engine.calls == [(Operation.UP, SPACE)]
    service = world.cluster.find(SERVICE, "web", SPACE)
    assert service is not None
    assert "old" not in service["metadata"]["labels"]
    spec = world.applied(LEASE).spec
    assert spec is not None
    assert spec.builder_version == BUILDER_VERSION


async def test_what_would_change_in_the_pods_is_listed_without_its_values() -> None:
    world = World()
    await _of_the_previous_builder(world)
    reason = (await world.converge(LEASE)).reason
    assert PENDING in reason
    assert "template.spec.securityContext.runAsNonRoot" in reason
    assert "hunter22" not in reason


async def test_after_an_upgrade_nothing_is_done_twice_and_a_restart_does_nothing() -> None:
    world = World()
    await _of_the_previous_builder(world)
    await world.converge(LEASE)
    world.engine.calls.clear()
    for _ in range(2):
        world.restart()
        assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert world.engine.calls == []


async def test_the_tenants_next_manifest_makes_every_pod_by_todays_builder() -> None:
    world = World()
    await _of_the_previous_builder(world)
    await world.converge(LEASE)
    await world.send(LEASE, a_group("nginx:2"))
    outcome = await world.converge(LEASE)
    assert (outcome.phase, outcome.reason, world.image(LEASE)) == (Phase.RUNNING, "", "nginx:2")
    assert "OLD" not in _template(world)


@pytest.mark.parametrize("upgraded", [True, False], ids=["after the upgrade", "before the first look"])
async def test_a_recreate_request_recreates_what_was_kept(*, upgraded: bool) -> None:
    world = World()
    await _of_the_previous_builder(world)
    if upgraded:
        await world.converge(LEASE)
    assert await world.reconciler.recreate(LEASE)
    world.restart()
    outcome = await world.converge(LEASE)
    assert (outcome.phase, outcome.reason) == (Phase.RUNNING, "")
    assert "OLD" not in _template(world)
    assert not world.applied(LEASE).anew


async def test_recreating_what_is_up_to_date_changes_nothing() -> None:
    world = World()
    await world.run(LEASE, a_group())
    world.engine.calls.clear()
    assert await world.reconciler.recreate(LEASE)
    await world.converge(LEASE)
    assert world.engine.calls == []
    assert not world.applied(LEASE).anew
    assert not await world.reconciler.recreate(a_lease(2)), "nothing was ever applied"


async def test_an_upgrade_that_is_killed_in_the_middle_goes_on_and_replaces_no_pod() -> None:
    world = World()
    await _of_the_previous_builder(world)
    before = _template(world)
    world.engine.faults.append(Fault(error="signal: killed", objects=1))
    assert (await world.check(LEASE)).retry
    world.restart()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert _template(world) == before


@pytest.mark.parametrize("stack", ["there", "lost"])
async def test_with_the_record_lost_what_runs_is_taken_over_without_a_pod_replaced(stack: str) -> None:
    """Adoption: nobody knows who made it."""
    world = World()
    await _of_the_previous_builder(world)
    world.cluster.remove((SECRET.api_version, SECRET.kind, "lease", applied_name(LEASE)))
    if stack == "lost":
        world.engine.lose_state()
    before = _template(world)
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert _template(world) == before
    assert (await world.reconciler.recreate(LEASE), (await world.converge(LEASE)).reason) == (True, "")
    assert _template(world) != before


async def test_with_the_stacks_state_lost_too_an_upgrade_replaces_no_pod() -> None:
    world = World()
    await _of_the_previous_builder(world)
    world.engine.lose_state()
    before = _template(world)
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert _template(world) == before


async def test_what_was_refused_before_an_upgrade_stays_refused_and_touches_nothing() -> None:
    world = World()
    await world.run(LEASE, a_group())
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(LEASE, a_group("bad:1"))
    assert (await world.converge(LEASE)).phase is Phase.UPDATE_FAILED
    record = world.applied(LEASE)
    assert record.spec is not None
    assert record.attempt is not None
    newest = world.build_spec(SpecInputs(world_record(world), record.spec)).model_copy(
        update={"builder_version": BUILDER_VERSION - 1}
    )
    old = record.spec.model_copy(update={"builder_version": BUILDER_VERSION - 1})
    attempt = type(record.attempt)(newest.content_hash(), record.attempt.error, restored=True)
    stored = Applied(old, record.manifest_hash, record.withheld, attempt)
    world.cluster.put(applied_object(LEASE, stored, namespace="lease"))
    world.engine.calls.clear()
    world.restart()
    assert (await world.converge(LEASE)).phase is Phase.UPDATE_FAILED
    assert world.engine.calls == []


def world_record(world: World) -> ManifestRecord:
    found = world.cluster.find(MANIFEST, SPACE, "lease")
    assert found is not None
    return read_manifest(found)


async def test_drift_of_a_kept_workload_is_put_right_to_what_was_kept() -> None:
    world = World()
    await _of_the_previous_builder(world)
    await world.converge(LEASE)
    before = _template(world)
    workload = _workload(world)
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = "else:1"
    world.cluster.put(workload)
    world.engine.state[SPACE].pop((workload["apiVersion"], workload["kind"], SPACE, "web"))
    world.restart()
    await world.converge(LEASE)
    assert _template(world) == before
    assert world.engine.priorities[-1] is Priority.REPAIR


def test_a_record_of_before_is_read_and_says_nothing_of_recreating() -> None:
    """Records of an older Lessor have no such fact, and ones without it are written as before."""
    obj = applied_object(LEASE, Applied(), namespace="lease")
    assert not read_applied(obj).anew
    assert read_applied(applied_object(LEASE, Applied(anew=True), namespace="lease")).anew


def _two_volumes(*, turned: bool, image: str = "nginx:1") -> Group:
    group = a_group(image, volume_bytes=1 << 30)
    service = (group.services or ())[0]
    first, data = service.resources.storage or ()
    assert service.params and service.params.storage
    mount = service.params.storage[0]
    volumes = (data, replace(data, name="more"))
    storage = (first, *(reversed(volumes) if turned else volumes))
    params = Params(storage=(mount, replace(mount, name="more", mount="/more")))
    resources = replace(service.resources, storage=storage)
    return replace(group, services=(replace(service, resources=resources, params=params),))


async def test_volumes_listed_in_another_order_are_the_same_volumes_and_nothing_is_made_anew() -> None:
    world = World()
    await world.run(LEASE, _two_volumes(turned=False))
    uid, claims = _workload(world)["metadata"]["uid"], _workload(world)["spec"]["volumeClaimTemplates"]
    await world.send(LEASE, _two_volumes(turned=True, image="nginx:2"))
    outcome = await world.converge(LEASE)
    assert (outcome.phase, outcome.reason, world.image(LEASE)) == (Phase.RUNNING, "", "nginx:2")
    assert _workload(world)["metadata"]["uid"] == uid
    assert _workload(world)["spec"]["volumeClaimTemplates"] == claims


@pytest.mark.parametrize("images", [("nginx:1", "nginx:2", "nginx:3"), ("nginx:2", "nginx:3")])
async def test_what_a_stateful_set_cannot_change_refuses_no_manifest_after_an_upgrade(images: tuple[str, ...]) -> None:
    """Another builder's serviceName would make it anew, and what holds volumes is never made anew. The tenant's next
    manifest may be the first thing that comes after the upgrade.
    """
    world = World()
    await _of_the_previous_builder(world, volume_bytes=1 << 30)
    workload = _workload(world)
    workload["spec"] |= {"serviceName": "old", "podManagementPolicy": "Parallel", "revisionHistoryLimit": 3}
    world.cluster.put(workload)
    for image in images:
        await world.send(LEASE, a_group(image, volume_bytes=1 << 30))
        outcome = await world.converge(LEASE)
        assert (outcome.phase, world.image(LEASE)) == (Phase.RUNNING, image), outcome
        found = _workload(world)
        assert (found["spec"]["serviceName"], found["spec"]["revisionHistoryLimit"]) == ("old", 3)
    assert outcome.reason == ""
    assert "OLD" not in _template(world)


def _two(first: str, second: str) -> Group:
    web = a_group(first).services or ()
    other = a_group(second, name="zzz").services or ()
    return Group("west", (*web, *other))


def _as_an_older_builder_had_it(world: World, name: str) -> dict[str, Any]:
    workload = world.cluster.find(DEPLOYMENT, name, SPACE)
    assert workload is not None
    workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    world.cluster.put(workload)
    return json.loads(json.dumps(workload))  # type: ignore[no-any-return]


async def _without_a_record(world: World) -> dict[str, Any]:
    """Templates by name after nobody knows any more what was applied."""
    world.cluster.remove((SECRET.api_version, SECRET.kind, "lease", applied_name(LEASE)))
    world.engine.lose_state()
    world.restart()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    found = {name: world.cluster.find(DEPLOYMENT, name, SPACE) for name in ("web", "zzz")}
    return {name: workload and workload["spec"]["template"]["spec"] for name, workload in found.items()}


async def test_with_the_record_lost_a_service_that_the_newest_manifest_left_alone_is_not_replaced_either() -> None:
    world = World()
    await world.run(LEASE, _two("nginx:1", "redis:1"))
    await world.send(LEASE, _two("nginx:2", "redis:1"))
    await world.converge(LEASE)
    before = {name: _as_an_older_builder_had_it(world, name)["spec"]["template"]["spec"] for name in ("web", "zzz")}
    assert await _without_a_record(world) == before


async def test_with_the_record_lost_in_the_middle_of_an_update_its_other_half_is_done() -> None:
    world = World()
    await world.run(LEASE, _two("nginx:1", "redis:1"))
    behind = _as_an_older_builder_had_it(world, "zzz")
    await world.send(LEASE, _two("nginx:2", "redis:2"))
    await world.converge(LEASE)
    done = _as_an_older_builder_had_it(world, "web")["spec"]["template"]["spec"]
    del behind["metadata"]["resourceVersion"]
    world.cluster.put(behind)
    after = await _without_a_record(world)
    assert after["web"] == done, "what has come to the manifest is as it was found"
    assert after["zzz"]["containers"][0]["image"] == "redis:2"
    assert "terminationGracePeriodSeconds" not in after["zzz"] or after["zzz"]["terminationGracePeriodSeconds"] != 5
