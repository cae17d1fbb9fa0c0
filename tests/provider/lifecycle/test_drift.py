"""Objects that were changed behind their stack's back: noticed by a watch, repaired or reported, not for ever."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from components.labels import Object
from components.lease import lease_objects
from lease.ids import LeaseId, namespace_name
from lease.spec import ClusterFacts, LeaseSpec
from provider.lifecycle.additions import removal
from provider.lifecycle.drift import Drift, differences, find_drift
from provider.lifecycle.state import Phase
from provider.lifecycle.watches import Watcher, watched
from provider.protocols import cluster as objects
from provider.protocols.cluster import WatchEvent
from stacks.common.results import Operation
from tests.components.specs import everything
from tests.provider.lifecycle.world import NEVER_S, World, a_group, a_lease
from tests.world.cluster import FakeCluster
from tests.world.engine import Fault

pytestmark = pytest.mark.virtual_time

L, OTHER = a_lease(), a_lease(2)
_STEP_S, _STEPS = 0.5, 4000
"""How often controllers work in virtual time, and how often at most."""
DEPLOYMENT = ("apps/v1", "Deployment", namespace_name(L), "web")
SERVICE = ("v1", "Service", namespace_name(L), "web")


class Isolated(World):
    """A world with network policies."""

    facts = ClusterFacts(network_policies=True)

    def spec(self) -> LeaseSpec:
        spec = self.applied(L).spec
        assert spec is not None
        return spec


def by_hand(world: World, key: tuple[str, str, str, str], edit: Callable[[Object], object]) -> None:
    changed = copy.deepcopy(world.cluster.objects[key])
    edit(changed)
    world.cluster.put(changed)


def another_image(obj: Object) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "else:1"


@asynccontextmanager
async def looping(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.loop.run())
    try:
        await until(lambda: phase(world) is Phase.RUNNING, world)
        await world.elapse(50)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool], world: World) -> None:
    for _ in range(_STEPS):
        if condition():
            return
        world.cluster.settle()
        await world.elapse(_STEP_S)
    raise AssertionError(f"not within {_STEPS * _STEP_S:g} s: {dict(world.loop.statuses)}")


def phase(world: World) -> Phase | None:
    status = world.loop.statuses.get(L)
    return status.phase if status else None


def operations(world: World, lease: Any = L) -> list[Operation]:
    return [operation for operation, stack in world.engine.calls if stack == namespace_name(lease)]


async def test_a_service_deleted_by_hand_comes_back_and_no_other_stack_is_touched() -> None:
    world, other = World(resync_s=NEVER_S), a_lease(2)
    for lease in (L, other):
        await world.run(lease, a_group())
    async with looping(world):
        world.cluster.remove(SERVICE)
        await until(lambda: SERVICE in world.cluster.objects, world)
    assert operations(world) == [Operation.UP, Operation.REFRESH, Operation.UP]
    assert operations(world, other) == [Operation.UP]


def one_more_label(obj: Object) -> None:
    obj["spec"]["podSelector"] = {"matchLabels": {"somebody": "else"}}


def open_to_all(obj: Object) -> None:
    obj["spec"]["ingress"].append({})


def one_more_peer(obj: Object) -> None:
    obj["spec"]["ingress"][0]["from"][0]["podSelector"] = {"matchLabels": {"x": "y"}}


def selects_less(obj: Object) -> None:
    obj["spec"]["selector"]["somebody"] = "else"


def one_more_port(obj: Object) -> None:
    obj["spec"]["ports"].insert(0, {"name": "more", "port": 22, "protocol": "TCP"})


RESTRICTIONS = ("networking.k8s.io/v1", "NetworkPolicy", namespace_name(L), "akash-deployment-restrictions")
ADDITIONS = [
    (RESTRICTIONS, one_more_label, "spec.podSelector.matchLabels"),
    (RESTRICTIONS, open_to_all, "spec.ingress"),
    (RESTRICTIONS, one_more_peer, "spec.ingress[0].from[0].podSelector"),
    (SERVICE, selects_less, "spec.selector.somebody"),
    (SERVICE, one_more_port, "spec.ports[more]"),
]


@pytest.mark.parametrize(("key", "hand", "path"), ADDITIONS)
async def test_what_is_added_where_the_whole_set_counts_is_removed(
    key: tuple[str, str, str, str], hand: Callable[[Object], object], path: str
) -> None:
    """`kubectl patch netpol … podSelector` ends a lease's isolation, and the engine's refresh does not see it."""
    world = Isolated()
    await world.run(L, a_group())
    before = copy.deepcopy(world.cluster.objects[key]["spec"])
    async with looping(world):
        by_hand(world, key, hand)
        assert world.cluster.objects[key]["spec"] != before
        assert await find_drift(world.cluster, world.spec()) == (f"{key[1]} {key[3]} differs in {path}",)
        await until(lambda: world.cluster.objects[key]["spec"] == before, world)
        await until(lambda: phase(world) is Phase.RUNNING, world)
        await world.elapse(100)
    assert world.loop.statuses[L].reason == ""
    assert operations(world) == [Operation.UP, Operation.REFRESH, Operation.UP]


async def test_in_report_mode_an_addition_stays_and_is_reported() -> None:
    world = Isolated(repair_drift=False)
    await world.run(L, a_group())
    async with looping(world):
        by_hand(world, RESTRICTIONS, one_more_label)
        await until(lambda: "not as applied" in world.loop.statuses[L].reason, world)
    assert world.loop.statuses[L].reason.endswith("restrictions differs in spec.podSelector.matchLabels")
    assert world.cluster.objects[RESTRICTIONS]["spec"]["podSelector"] == {"matchLabels": {"somebody": "else"}}


def test_the_node_ports_of_a_services_own_ports_survive_the_removal_of_another() -> None:
    wanted: Object = {"kind": "Service", "spec": {"ports": [{"name": "0-80", "port": 80}], "selector": {"a": "b"}}}
    live = copy.deepcopy(wanted)
    live["spec"]["ports"] = [{"name": "x", "port": 1}, {"name": "0-80", "port": 80, "nodePort": 30123}]
    assert removal(wanted, live) == {"spec": {"ports": [{"name": "0-80", "port": 80, "nodePort": 30123}]}}
    assert removal(wanted, wanted) is None


async def test_in_report_mode_nothing_is_repaired_and_the_status_says_what_differs() -> None:
    world = World(repair_drift=False)
    await world.run(L, a_group())
    async with looping(world):
        by_hand(world, DEPLOYMENT, another_image)
        await until(lambda: "not as applied" in world.loop.statuses[L].reason, world)
    reason = "not as applied: Deployment web differs in spec.template.spec.containers[web].image"
    assert world.loop.statuses[L].reason == reason
    assert world.image(L) == "else:1" and operations(world) == [Operation.UP]


async def test_what_a_repair_does_not_put_right_is_reported_and_not_tried_for_ever() -> None:
    """The fake engine compares with its state, as Pulumi would if its refresh saw no difference."""
    world = World()
    await world.run(L, a_group())
    async with looping(world):
        by_hand(world, DEPLOYMENT, another_image)
        await until(lambda: "not as applied" in world.loop.statuses[L].reason, world)
        await world.elapse(100)
        assert operations(world) == [Operation.UP, Operation.REFRESH, Operation.UP]
        by_hand(world, DEPLOYMENT, lambda obj: obj["spec"].update(replicas=7))
        await until(lambda: len(operations(world)) == 5, world)


async def test_a_repair_that_fails_for_our_sake_is_tried_again() -> None:
    world = World()
    await world.run(L, a_group())
    world.cluster.remove(SERVICE)
    world.restart()
    world.engine.faults.append(Fault(error="connection refused"))
    assert (await world.check(L)).retry
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert SERVICE in world.cluster.objects


async def test_a_repair_of_a_lease_whose_state_is_lost_needs_no_refresh() -> None:
    world = World()
    await world.run(L, a_group())
    world.engine.lose_state()
    world.cluster.remove(SERVICE)
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert SERVICE in world.cluster.objects and Operation.REFRESH not in operations(world)


async def test_a_change_while_the_provider_was_down_is_found_at_the_first_check() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"]))
    world.cluster.remove(("networking.k8s.io/v1", "Ingress", namespace_name(L), "a.example.com"))
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert ("networking.k8s.io/v1", "Ingress", namespace_name(L), "a.example.com") in world.cluster.objects


async def test_after_the_first_comparison_a_check_reads_no_more_than_it_needs() -> None:
    world = World()
    await world.run(L, a_group())
    await world.check(L)
    asked: list[str] = []
    world.cluster.before = lambda operation, kind, name: asked.append(kind)
    await world.check(L)
    assert "Service" not in asked


async def test_a_status_a_pod_and_a_foreign_annotation_are_no_drift() -> None:
    world = World()
    await world.run(L, a_group())
    async with looping(world):
        world.cluster.make_ready(world.cluster.objects[DEPLOYMENT], 0)
        world.cluster.make_ready(world.cluster.objects[DEPLOYMENT], 1)
        pod = {"name": "web-1", "namespace": namespace_name(L), "labels": {"akash.network": "true"}}
        world.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": pod})
        world.cluster.remove(("v1", "Pod", namespace_name(L), "web-1"))
        by_hand(world, DEPLOYMENT, lambda obj: obj["metadata"].update(annotations={"x": "y"}))
        await world.elapse(100)
        await until(lambda: phase(world) is Phase.RUNNING, world)
    assert operations(world) == [Operation.UP]


def stored(obj: Object) -> Object:
    """As an API server gives it back: with defaults, a status and what controllers write."""
    live = copy.deepcopy(obj)
    live["metadata"] |= {"uid": "u", "resourceVersion": "7", "generation": 3}
    live["metadata"].setdefault("annotations", {})["deployment.kubernetes.io/revision"] = "3"
    live["status"] = {"observedGeneration": 3}
    if "spec" in live and live["kind"] != "NetworkPolicy":  # a policy's fields have no defaults
        live["spec"]["defaulted"] = True
    for container in live.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["terminationMessagePath"] = "/dev/termination-log"
        container.setdefault("env", []).append({"name": "INJECTED", "value": "by a webhook"})
    return live


def test_defaults_statuses_and_company_are_no_differences() -> None:
    for obj in lease_objects(everything()):
        assert list(differences(obj, stored(obj))) == []


async def test_every_kind_of_object_is_missed_when_it_is_gone() -> None:
    spec = everything()
    objects = lease_objects(spec)
    cluster = FakeCluster()
    for obj in objects:
        cluster.put(stored(obj))
    assert await find_drift(cluster, spec) == ()
    for obj in objects[1:]:
        key = (obj["apiVersion"], obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
        kept = cluster.objects.pop(key)
        assert await find_drift(cluster, spec) == (f"{obj['kind']} {obj['metadata']['name']} is missing",)
        cluster.objects[key] = kept | {"metadata": kept["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        assert await find_drift(cluster, spec) == (), "what is being deleted counts when it is gone"
        cluster.objects[key] = kept


@pytest.mark.parametrize(
    ("wanted", "live", "paths"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": 1}, {"b": 2}, ["a"]),
        ({"a": {"b": "x"}}, {"a": None}, ["a"]),
        ({"a": ""}, {}, []),
        ({"a": []}, {}, []),
        ({"a": ["x"]}, {"a": ["x", "y"]}, ["a"]),
        ({"a": [{"port": 1}]}, {"a": [{"port": 1, "more": 1}]}, []),
        ({"a": [{"port": 1}]}, {"a": [{"port": 1}, {"port": 2}]}, ["a"]),
        ({"e": [{"name": "A", "value": "1"}]}, {"e": [{"name": "B"}, {"name": "A", "value": "2"}]}, ["e[A].value"]),
        ({"e": [{"name": "A", "value": "1000m"}]}, {"e": [{"name": "A", "value": "1"}]}, ["e[A].value"]),
        ({"e": [{"name": "A"}]}, {"e": [{"value": "1"}]}, ["e[0].name"]),
        ({"e": [{"value": "1"}]}, {"e": [{"name": "A", "value": "1"}]}, []),
        ({"c": {"resources": {"limits": {"cpu": "1000m"}}}}, {"c": {"resources": {"limits": {"cpu": "1"}}}}, []),
        ({"c": {"resources": {"limits": {"cpu": "2"}}}}, {"c": {"resources": {"limits": {"cpu": "x"}}}},
         ["c.resources.limits.cpu"]),
    ],
)  # fmt: skip
def test_only_what_we_say_counts(wanted: Any, live: Any, paths: list[str]) -> None:
    assert list(differences(wanted, live)) == paths


def test_a_change_while_objects_are_read_makes_them_due_again() -> None:
    looks: list[LeaseId] = []
    drift = Drift()
    watcher = Watcher(
        FakeCluster(), records="lease", check=lambda lease, after: looks.append(lease), drift_of=lambda lease: drift
    )
    watcher.know(L)
    place = {"name": "web", "namespace": namespace_name(L)}
    obj = {"kind": "Service", "metadata": place, "spec": {"a": 1}}
    watcher._handle(objects.SERVICE, WatchEvent("ADDED", obj))
    assert looks == [] and not drift.compared, "the first comparison is still to come"
    drift.compared = True
    watcher._handle(objects.SERVICE, WatchEvent("MODIFIED", obj | {"status": {"x": 1}}))
    assert looks == [] and drift.compared
    watcher._handle(objects.SERVICE, WatchEvent("MODIFIED", obj | {"spec": {"a": 2}}))
    assert looks == [L] and not drift.compared
    drift.compared = True
    watcher._handle(objects.SERVICE, WatchEvent("DELETED", obj))
    assert looks == [L, L] and not drift.compared


@pytest.mark.parametrize("kind", ["IPAddressPool", "L2Advertisement"])
@pytest.mark.parametrize("hand", ["changed", "deleted"])
async def test_a_pool_of_a_leased_address_is_watched_and_its_lease_repaired(kind: str, hand: str) -> None:
    """It is in MetalLB's namespace, so it is joined to its leases by the address they hold."""
    world = World(resync_s=NEVER_S)
    await world.run(L, a_group(ip="front"))
    await world.run(OTHER, a_group())
    key = next(key for key in world.cluster.objects if key[1] == kind)
    world.restart()
    async with looping(world):
        await until(lambda: not world.engine.calls or len(world.loop.statuses) == 2, world)
        world.engine.calls.clear()
        if hand == "changed":
            by_hand(world, key, lambda obj: obj["spec"].update(somebody="else", autoAssign=True, ipAddressPools=["x"]))
        else:
            world.cluster.remove(key)
        await until(lambda: len(world.engine.calls) == 2, world)
        await until(lambda: key in world.cluster.objects, world)
    assert world.engine.calls == [(Operation.REFRESH, namespace_name(L)), (Operation.UP, namespace_name(L))]


async def test_a_rolling_drain_of_the_nodes_is_no_drift_and_ends_nothing() -> None:
    """Maintenance: pods go from one node after another and come back elsewhere, their workloads are not ready."""
    world = World(unstable_after_s=1)
    for lease in (L, OTHER):
        await world.run(lease, a_group())
    world.restart()
    async with looping(world):
        await until(lambda: len(world.loop.statuses) == 2, world)
        world.engine.calls.clear()
        for _ in range(3):
            for lease in (L, OTHER):
                drained = (DEPLOYMENT[0], DEPLOYMENT[1], namespace_name(lease), "web")
                by_hand(world, drained, lambda obj: obj["status"].update(readyReplicas=0, availableReplicas=0))
            await world.elapse(0.4)
            world.cluster.settle()
        await until(lambda: all(each.phase is Phase.RUNNING for each in world.loop.statuses.values()), world)
    assert world.engine.calls == []
    assert world.chain.sent == []


async def test_a_change_by_hand_asks_for_its_lease_at_once_and_for_no_other() -> None:
    """What makes it be seen within 2 s: the watch itself asks, after the time in which bursts come to an end."""
    world = World()
    asked: list[tuple[LeaseId, float]] = []
    drifts = {lease: Drift() for lease in (L, OTHER)}
    watcher = Watcher(
        world.cluster, records="lease", check=lambda lease, after: asked.append((lease, after)), drift_of=drifts.get
    )
    for lease in (L, OTHER):
        await world.run(lease, a_group())
        watcher.know(lease)
    following = [asyncio.create_task(watcher.follow(kind)) for kind in watched(gateway_api=False, addresses=True)]
    try:
        await world.elapse(0.05)
        for lease in (L, OTHER):
            drifts[lease].compared = True
        asked.clear()
        by_hand(world, DEPLOYMENT, another_image)
        world.cluster.remove(SERVICE)
        await world.elapse(0.05)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    assert set(asked) == {(L, 0.3)}
    assert not drifts[L].compared and drifts[OTHER].compared
