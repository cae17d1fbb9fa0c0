"""How much each storage class can hold (operators.md §2.9). The objects are those that the reference describes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.errors import ClusterError
from provider.operators.inventory.ceph_scrape import ceph_df_in
from provider.operators.inventory.storage.ceph import ceph_pools
from provider.operators.inventory.storage.longhorn import largest_volume
from provider.protocols.pods import Channel, Command
from tests.provider.operators.inventory.world import World, node, operating, pod, storage_class, volume
from tests.world.cluster import FakeCluster
from tests.world.pods import FakeExecution, FakePods, exit_status

CEPH = "rook-ceph.rbd.csi.ceph.com"
GIB = 1 << 30


def ceph_cluster(name: str = "rook-ceph", *, state: str = "Created") -> dict[str, Any]:
    return {
        "apiVersion": "ceph.rook.io/v1",
        "kind": "CephCluster",
        "metadata": {"name": name, "namespace": "rook-ceph"},
        "status": {"state": state},
    }


def df(**pools: tuple[int, int]) -> str:
    listed = [{"name": name.replace("_", "-"), "stats": {"max_avail": free, "stored": stored}}
              for name, (free, stored) in pools.items()]  # fmt: skip
    return json.dumps({"pools": listed})


def ceph_world(**pools: tuple[int, int]) -> World:
    world = World(ceph={"rook-ceph": df(**pools)})
    for name in ("rook-ceph", "longhorn-system"):
        world.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    world.cluster.put(ceph_cluster())
    world.cluster.put(storage_class("beta2", CEPH, pool="akash-deployments", clusterID="rook-ceph"))
    return world


@pytest.mark.virtual_time
async def test_what_is_left_of_a_ceph_pool_counts_no_byte_twice() -> None:
    """operators.md §9, item 6: `max_avail` excludes what is stored, and the volumes that hold it are subtracted too."""
    world = ceph_world(akash_deployments=(700 * GIB, 100 * GIB), other=(1, 1))
    world.cluster.put(volume("v1", "beta2", "200Gi"))
    async with operating(world):
        await world.clock.advance(2)
        [found] = world.state.storage
        assert (found.name, found.driver) == ("beta2", "ceph")
        assert (found.quantity.allocatable, found.quantity.allocated) == (800 * GIB, 200 * GIB)
        assert found.quantity.available == 600 * GIB


@pytest.mark.virtual_time
async def test_a_ceph_pool_is_asked_after_changes_and_every_minute() -> None:
    world = ceph_world(akash_deployments=(700, 0))
    async with operating(world):
        await world.clock.advance(2)
        world.ceph["rook-ceph"] = df(akash_deployments=(600, 0))
        await world.clock.advance(70)
        assert world.state.storage[0].quantity.allocatable == 600
        world.ceph["rook-ceph"] = df(akash_deployments=(500, 0))
        world.cluster.put(volume("v1", "beta2", "1"))
        await world.clock.advance(1)
        assert world.state.storage[0].quantity.allocatable == 500


@pytest.mark.virtual_time
async def test_a_toolbox_that_does_not_answer_keeps_the_last_pools_and_a_cluster_that_goes_takes_them() -> None:
    world = ceph_world(akash_deployments=(700, 0))
    async with operating(world):
        await world.clock.advance(2)
        for answer in (None, "", "{}", '{"pools": [{}]}', '{"pools": [{"name": "a", "stats": {"max_avail": "x"}}]}'):
            world.ceph.pop("rook-ceph", None)
            if answer is not None:
                world.ceph["rook-ceph"] = answer
            await world.clock.advance(70)
            assert [one.quantity.allocatable for one in world.state.storage] == [700]
        world.cluster.put(ceph_cluster(state="Deleting"), status=True)
        await world.clock.advance(2)
        assert world.state.storage == ()


@pytest.mark.virtual_time
async def test_a_volume_of_a_class_that_does_not_exist_is_counted_for_nothing() -> None:
    """Field problem B8."""
    world = ceph_world(akash_deployments=(700, 0))
    world.cluster.put(volume("v1", "gone", "10"))
    async with operating(world):
        await world.clock.advance(2)
        world.cluster.remove(("v1", "PersistentVolume", "", "v1"))
        await world.clock.advance(2)
        assert world.state.storage[0].quantity.allocated == 0


def longhorn_node(name: str, *, available: int, scheduled: int = 0, **more: Any) -> dict[str, Any]:
    disk = {"storageAvailable": available, "storageScheduled": scheduled, "storageMaximum": 100 * GIB}
    wanted = {"allowScheduling": True, "storageReserved": 0} | more
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "longhorn.io/v1beta2",
        "kind": "Node",
        "metadata": {"name": name, "namespace": "longhorn-system"},
        "spec": {"allowScheduling": True, "disks": {"d1": wanted}},
        "status": {"conditions": ready, "diskStatus": {"d1": disk}},
    }


def longhorn_setting(name: str, value: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "longhorn-system"}
    return {"apiVersion": "longhorn.io/v1beta2", "kind": "Setting", "metadata": metadata, "value": value}


def longhorn_world(*nodes: dict[str, Any], replicas: str = "2") -> World:
    world = ceph_world()
    world.cluster.put(storage_class("beta3", "driver.longhorn.io", numberOfReplicas=replicas))
    for one in nodes:
        world.cluster.put(one)
    return world


@pytest.mark.virtual_time
async def test_a_longhorn_class_holds_what_all_its_replicas_find_place_for() -> None:
    """Of each disk a quarter stays free, as Longhorn's own setting has it."""
    world = longhorn_world(*(longhorn_node(name, available=75 * GIB) for name in ("a", "b", "c")))
    world.cluster.put(volume("v1", "beta3", "10Gi"))
    async with operating(world):
        await world.clock.advance(1)
        [found] = world.state.storage
        assert (found.name, found.driver) == ("beta3", "longhorn")
        assert (found.quantity.available, found.quantity.allocated) == (75 * GIB, 10 * GIB)
        world.cluster.put(longhorn_setting("storage-minimal-available-percentage", "50"))
        world.cluster.put(longhorn_setting("storage-over-provisioning-percentage", "20"))
        await world.clock.advance(8)
        assert world.state.storage[0].quantity.available == 30 * GIB


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("second", "left_gib"),
    [
        (longhorn_node("b", available=75 * GIB), 50),
        (longhorn_node("b", available=75 * GIB, allowScheduling=False), 0),
        (longhorn_node("b", available=75 * GIB, storageReserved=90 * GIB), 10),
        (longhorn_node("b", available=75 * GIB, scheduled=95 * GIB), 5),
        (longhorn_node("b", available=10 * GIB), 0),
    ],
)
async def test_a_disk_counts_as_longhorn_would_schedule_on_it(second: dict[str, Any], left_gib: int) -> None:
    world = longhorn_world(longhorn_node("a", available=90 * GIB), second)
    async with operating(world):
        await world.clock.advance(1)
        assert world.state.storage[0].quantity.available == left_gib * GIB


@given(free=st.lists(st.integers(0, 30), max_size=6), replicas=st.integers(1, 4))
def test_the_largest_volume_is_the_largest_whose_replicas_fit(free: list[int], replicas: int) -> None:
    def fits(size: int) -> bool:
        return sum(min(one, size) for one in free) >= replicas * size

    size = largest_volume(free, replicas)
    assert fits(size) and not fits(size + 1)


@pytest.mark.virtual_time
async def test_a_class_that_is_not_managed_is_not_offered() -> None:
    world = World()
    world.cluster.put(node())
    plain = storage_class("local")
    plain["metadata"].pop("labels")
    world.cluster.put(plain)
    async with operating(world):
        assert world.state.storage == ()
        assert world.state.nodes[0].classes == ()


def test_pools_are_read_by_name() -> None:
    assert ceph_pools(df(a=(5, 3)))["a"].free_bytes == 5


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pools": [{"name": "a", "stats": {"max_avail": 1e999}}]}', "[" * 100_000]
)
def test_pools_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"another form|Expecting"):
        ceph_pools(text)


def toolbox(*, phase: str = "Running") -> FakeCluster:
    cluster = FakeCluster("rook-ceph")
    tools = pod("rook-ceph-tools-7d", namespace="rook-ceph", phase=phase)
    tools["metadata"]["labels"] = {"app": "rook-ceph-tools"}
    cluster.put(tools)
    return cluster


@pytest.mark.virtual_time
async def test_ceph_df_runs_in_the_toolbox_pod() -> None:
    pods = FakePods()

    async def play(command: Command, execution: FakeExecution) -> None:
        execution.say(b'{"pools"')
        execution.say(b"warning", Channel.STDERR)
        execution.say(b": []}")
        execution.finish(exit_status(0))

    pods.play = play
    assert await ceph_df_in(toolbox(), pods, address="https://fake")("rook-ceph") == '{"pools": []}'
    [command] = pods.commands
    assert (command.pod, command.container) == ("rook-ceph-tools-7d", "rook-ceph-tools")
    assert command.arguments == ("ceph", "df", "--format", "json")


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ("fails", "timed out"),
        ("hangs", "more than 15 s"),
        ("absent", "no pod"),
        ("floods", "more than 8388608 bytes"),
        ("lies", "ceph df failed: \\[]"),
    ],
)
async def test_a_ceph_df_that_fails_says_why(end: str, problem: str) -> None:
    pods = FakePods()

    async def play(command: Command, execution: FakeExecution) -> None:
        if end == "fails":
            execution.say(b"timed out", Channel.STDERR)
            execution.finish(exit_status(1))
        if end == "floods":
            for _ in range(9):
                execution.say(b" " * (1 << 20))
        if end == "lies":
            execution.say(b"[]", Channel.RESULT)
            execution.finish(None)

    pods.play = play
    cluster = toolbox(phase="Pending" if end == "absent" else "Running")
    df = ceph_df_in(cluster, pods, address=cluster.address)
    with pytest.raises(ClusterError, match=problem):
        await df("rook-ceph")
