"""The inventory operator over a cluster in memory: what a change of the cluster does to the published state, the labels
and the discovery pods (operators.md §2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from provider.errors import ClusterError
from provider.operators.inventory.discovery_pod import LABELS, pod_name
from provider.operators.inventory.publication import NodeChange
from provider.operators.inventory.state import ClusterState
from tests.provider.operators.inventory.world import (
    NAMESPACE,
    World,
    cards,
    node,
    operating,
    pod,
    storage_class,
    volume,
)

pytestmark = pytest.mark.virtual_time
A100 = ("10de", "20b5")
TWO = {"nvidia.com/gpu": "2"}


async def test_an_empty_cluster_is_published_with_no_nodes() -> None:
    async with operating(World()) as world:
        assert world.state == ClusterState()
        assert world.bus.on("inventory-cluster") == [ClusterState()]


async def test_a_node_is_discovered_labelled_and_published() -> None:
    world = World(machines={"n1": cards(A100, A100)})
    world.cluster.put(node(resources=TWO))
    world.cluster.put(storage_class("beta2"))
    async with operating(world):
        await world.clock.advance(1)
        [found] = world.state.nodes
        assert [(gpu.vendor, gpu.vendor_id, gpu.name, gpu.model_id) for gpu in found.gpus] == [
            ("nvidia", "10de", "a100", "20b5")
        ] * 2
        assert found.classes == ("beta2",)
        assert (found.cpu.allocatable, found.gpu.allocatable) == (16000, 2)
        assert world.labels()["akash.network/capabilities.gpu.vendor.nvidia.model.a100"] == "2"
        assert world.labels()["akash.network/capabilities.storage.class.beta2"] == "1"


async def test_the_discovery_pod_is_the_go_provider_s_with_no_privileges() -> None:
    world = World()
    world.cluster.put(node())
    async with operating(world):
        found = world.discovery_pod()
        assert found is not None
        assert found["metadata"]["name"] == "operator-inventory-hardware-discovery-n1"
        assert found["metadata"]["labels"] == LABELS
        spec, [container] = found["spec"], found["spec"]["containers"]
        assert (spec["nodeName"], spec["serviceAccountName"]) == ("n1", "operator-inventory-hardware-discovery")
        assert (container["name"], container["command"][-1]) == ("psutil", "--api-port=8081")
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["runAsNonRoot"] is True
        assert "volumes" not in spec
    assert world.discovery_pod() is None, "the operator removes its pods at its end"


async def test_a_privileged_discovery_pod_reads_the_host_s_root() -> None:
    world = World()
    world.cluster.put(node())
    async with operating(world, privileged=True):
        found = world.discovery_pod()
        assert found is not None
        [container] = found["spec"]["containers"]
        assert container["securityContext"]["privileged"] is True
        assert container["command"][-2:] == ["--root", "/host"]
        assert container["volumeMounts"] == [{"name": "host", "mountPath": "/host", "readOnly": True}]


@pytest.mark.parametrize("end", ["deleted", "evicted"])
async def test_a_discovery_pod_that_dies_is_replaced_and_asked_again(end: str) -> None:
    world = World(machines={"n1": cards()})
    world.cluster.put(node())
    async with operating(world):
        first = world.discovery_pod()
        assert first is not None
        if end == "deleted":
            world.cluster.remove(("v1", "Pod", NAMESPACE, pod_name("n1")))
        else:
            world.cluster.put({**first, "status": {"phase": "Failed"}}, status=True)
        world.machines["n1"] = cards(A100)
        await world.clock.advance(5)
        second = world.discovery_pod()
        assert second is not None and second["metadata"]["uid"] != first["metadata"]["uid"]
        assert world.state.nodes[0].gpus[0].name == "a100"


async def test_a_restart_of_the_container_is_asked_again() -> None:
    world = World(machines={"n1": cards()})
    world.cluster.put(node())
    async with operating(world):
        world.machines["n1"] = cards(A100)
        found = world.discovery_pod()
        assert found is not None
        status = {"phase": "Running", "containerStatuses": [{"name": "psutil", "ready": True, "restartCount": 1}]}
        world.cluster.put({**found, "status": status}, status=True)
        await world.clock.advance(1)
        assert len(world.state.nodes[0].gpus) == 1


async def test_hardware_is_read_again_every_ten_minutes() -> None:
    world = World(machines={"n1": cards(A100)})
    world.cluster.put(node())
    async with operating(world):
        world.machines["n1"] = cards()
        await world.clock.advance(500)
        assert len(world.state.nodes[0].gpus) == 1
        await world.clock.advance(200)
        assert world.state.nodes[0].gpus == ()


async def test_the_pod_of_a_node_that_goes_goes_and_nothing_is_made_for_it_again() -> None:
    world = World(machines={"n1": cards()})
    world.cluster.put(node())
    async with operating(world):
        world.cluster.remove(("v1", "Node", "", "n1"))
        await world.clock.advance(30)
        assert world.names == []
        assert world.discovery_pod() is None
        assert world.bus.on("inventory-node")[-1] == NodeChange("n1", None)


async def test_pods_of_an_earlier_run_are_removed_where_no_node_wants_one() -> None:
    world = World()
    leftover = pod(pod_name("gone"), on="gone", namespace=NAMESPACE)
    leftover["metadata"]["labels"] = LABELS
    world.cluster.put(leftover)
    async with operating(world):
        await world.clock.advance(1)
        assert world.discovery_pod("gone") is None


@pytest.mark.parametrize(
    "change",
    [
        {"ready": "False"},
        {"unschedulable": True},
        {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]},
        {
            "conditions": [{"type": "MemoryPressure", "status": "True"}],
            "taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}],
        },
    ],
)
async def test_a_node_that_takes_no_pods_leaves_the_state_and_loses_its_managed_labels(change: dict[str, Any]) -> None:
    """D2. Labels of others stay."""
    world = World(machines={"n1": cards(A100)})
    world.cluster.put(node(labels={"site": "a"}, resources=TWO))
    async with operating(world):
        await world.clock.advance(1)
        assert world.names == ["n1"]
        labels = world.labels()
        world.cluster.put({**node(labels=labels, resources=TWO, **change)}, status=True)
        world.cluster.put({**node(labels=labels, resources=TWO, **change)})
        await world.clock.advance(2)
        assert world.names == []
        assert world.labels() == {"site": "a"}
        world.cluster.put(node(labels=world.labels(), resources=TWO), status=True)
        world.cluster.put(node(labels=world.labels(), resources=TWO))
        await world.clock.advance(2)
        assert world.names == ["n1"]
        assert world.labels()["akash.network"] == "true"


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({}, {"allocatable": {"cpu": "8"}}, "cpu"),
        ({}, {"allocatable": {"memory": "1Gi"}}, "memory"),
        ({"resources": TWO}, {"resources": TWO, "allocatable": {"nvidia.com/gpu": "1"}}, "gpu"),
        ({}, {"resources": {"ephemeral-storage": "200G"}}, "ephemeral"),
        ({}, {"conditions": [{"type": "DiskPressure", "status": "True"}]}, "facts"),
    ],
)
async def test_any_change_of_a_node_is_published_within_two_seconds(
    before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    world = World()
    world.cluster.put(node(**before))
    async with operating(world):
        await world.clock.advance(5)
        old = world.state.nodes[0]
        world.cluster.put(node(labels=world.labels(), **after), status=True)
        await world.clock.advance(2)
        assert getattr(world.state.nodes[0], field) != getattr(old, field)


async def test_a_pod_s_change_is_published_within_a_second() -> None:
    world = World()
    world.cluster.put(node())
    async with operating(world):
        for phase, milli in (("Pending", 1500), ("Running", 1500), ("Succeeded", 0)):
            world.cluster.put(pod("web", cpu="1500m", phase=phase), status=phase != "Pending")
            await world.clock.advance(1)
            assert world.state.nodes[0].cpu.allocated == milli


async def test_pods_of_one_name_in_two_namespaces_both_count() -> None:
    world = World()
    world.cluster.put(node())
    for space in ("lease", NAMESPACE):
        world.cluster.put(pod("web", namespace=space, cpu="100m"))
    async with operating(world):
        assert world.state.nodes[0].cpu.allocated == 200
        world.cluster.remove(("v1", "Pod", "lease", "web"))
        await world.clock.advance(1)
        assert world.state.nodes[0].cpu.allocated == 100


async def test_a_label_of_others_that_is_written_meanwhile_stays() -> None:
    world = World(machines={"n1": cards(A100)})
    world.cluster.put(node(resources=TWO))
    async with operating(world):
        await world.clock.advance(1)
        world.cluster.put(node(labels={**world.labels(), "site": "b"}, resources=TWO))
        world.cluster.put(storage_class("beta2"))
        await world.clock.advance(1)
        assert world.labels()["site"] == "b"
        assert world.labels()["akash.network/capabilities.storage.class.beta2"] == "1"


async def test_a_managed_label_that_somebody_removes_or_adds_is_put_right() -> None:
    world = World(machines={"n1": cards()})
    world.cluster.put(node(labels={"akash.network/storageclasses": "beta2.beta3"}))
    async with operating(world):
        await world.clock.advance(1)
        assert world.labels() == {"akash.network": "true"}
        world.cluster.put(node(labels={"akash.network/capabilities.gpu.vendor.nvidia.model.h100": "8"}))
        await world.clock.advance(1)
        assert world.labels() == {"akash.network": "true"}


async def test_labels_that_cannot_be_written_are_written_later() -> None:
    world = World(machines={"n1": cards(A100)})
    world.cluster.put(node(resources=TWO))

    def refuse(operation: str, kind: str, name: str) -> None:
        if operation == "patch":
            raise ClusterError("https://fake", "etcd is read-only", status=500)

    world.cluster.before = refuse
    with capture_logs() as logs:
        async with operating(world):
            await world.clock.advance(20)
            assert world.labels() == {}
            world.cluster.before = lambda operation, kind, name: None
            await world.clock.advance(40)
            assert world.labels()["akash.network"] == "true"
    assert [one["event"] for one in logs].count("inventory.labels_not_written") == 1


async def test_until_the_hardware_answers_the_labels_about_cards_stay() -> None:
    """Field problem B8: a restart of the operator does not change what is advertised."""
    labels = {"akash.network": "true", "akash.network/capabilities.gpu.vendor.nvidia.model.a100": "2"}
    world = World()
    world.cluster.put(node(labels=labels, resources=TWO))
    async with operating(world):
        await world.clock.advance(30)
        assert world.labels() == labels
        assert world.names == ["n1"]
        world.machines["n1"] = cards()
        await world.clock.advance(60)
        assert world.labels() == {"akash.network": "true"}


@pytest.mark.parametrize(("allocatable", "count"), [("2", "2"), ("1", "1"), ("0", None)])
async def test_a_card_that_the_device_plugin_does_not_offer_is_not_advertised(
    allocatable: str, count: str | None
) -> None:
    """Field problem B4."""
    world = World(machines={"n1": cards(A100, A100)})
    world.cluster.put(node(resources=TWO, allocatable={"nvidia.com/gpu": allocatable}))
    async with operating(world):
        await world.clock.advance(1)
        assert world.labels().get("akash.network/capabilities.gpu.vendor.nvidia.model.a100") == count
        assert world.labels()["nvidia.com/gpu.present"] == "true", "the device plugin is scheduled by it"
        assert world.state.nodes[0].gpu.allocatable == int(allocatable)


async def test_more_cards_in_use_than_are_healthy_leave_none_free() -> None:
    """Field problem B4: 8 in use of 7."""
    eight = {"nvidia.com/gpu": "8"}
    world = World(machines={"n1": cards(*[A100] * 8)})
    world.cluster.put(node(resources=eight))
    world.cluster.put(pod("web", gpu="8"))
    async with operating(world):
        world.cluster.put(
            node(labels=world.labels(), resources=eight, allocatable={"nvidia.com/gpu": "7"}), status=True
        )
        await world.clock.advance(2)
        gpu = world.state.nodes[0].gpu
        assert (gpu.capacity, gpu.allocatable, gpu.allocated, gpu.available) == (8, 7, 8, 0)


async def test_a_card_that_the_registry_does_not_know_is_shown_and_not_offered() -> None:
    """Field problem B1."""
    world = World(machines={"n1": cards(("10de", "ffff"))})
    world.cluster.put(node(resources=TWO))
    async with operating(world):
        await world.clock.advance(1)
        assert world.state.nodes[0].unknown_gpus == (("10de", "ffff"),)
        assert world.labels() == {"akash.network": "true"}


async def test_a_node_that_comes_after_the_registry_was_read_has_its_cards() -> None:
    """operators.md §9, hazard 1."""
    world = World(machines={"n1": cards(A100), "n2": cards(A100)})
    world.cluster.put(node())
    async with operating(world):
        world.cluster.put(node("n2"))
        await world.clock.advance(3)
        assert [len(one.gpus) for one in world.state.nodes] == [1, 1]


async def test_the_public_registry_replaces_the_bundled_one_and_a_bad_answer_changes_nothing() -> None:
    world = World(machines={"n1": cards(A100, ("10de", "ffff"))})
    world.cluster.put(node(resources=TWO))
    async with operating(world):
        await world.clock.advance(1)
        assert [gpu.name for gpu in world.state.nodes[0].gpus] == ["a100"]
        world.registry = b'{"10de": {"name": "nvidia", "devices": {"ffff": {"name": "x900", "interface": "PCIe"}}}}'
        await world.clock.advance(400)
        assert [gpu.name for gpu in world.state.nodes[0].gpus] == ["x900"]
        for bad in (b"{", b"{}", b'{"10de": {"name": "nvidia"}}', b"[]", b"[" * 100_000, None):
            world.registry = bad
            await world.clock.advance(400)
            assert [gpu.name for gpu in world.state.nodes[0].gpus] == ["x900"]


async def test_an_operator_s_own_file_adds_cards_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    path.write_text('{"8086": {"name": "intel", "devices": {"1234": {"name": "arcx", "interface": "PCIe"}}}}')
    world = World(machines={"n1": cards(("8086", "1234"), ("8086", "56a0"))})
    world.cluster.put(node(resources={"gpu.intel.com/xe": "2"}))
    async with operating(world, gpu_file=path):
        await world.clock.advance(1)
        assert [gpu.name for gpu in world.state.nodes[0].gpus] == ["arca770", "arcx"]
        assert world.labels()["akash.network/capabilities.gpu.vendor.intel.model.arcx"] == "1"
        path.write_text("{")
        await world.clock.advance(400)
        assert len(world.state.nodes[0].gpus) == 2


async def test_the_configuration_decides_what_is_offered_and_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("version: v1\ncluster_storage: [beta2]\n")
    world = World()
    for name in ("n1", "n2"):
        world.cluster.put(node(name))
    for name in ("beta2", "beta3"):
        world.cluster.put(storage_class(name))
    async with operating(world, config=str(path)):
        assert [one.classes for one in world.state.nodes] == [("beta2",)] * 2
        rule = "exclude: {nodes: [^n2], node_storage: [{node_filter: n1, classes: [beta3]}]}\n"
        path.write_text(f"cluster_storage: [beta2, beta3]\n{rule}")
        await world.clock.advance(3)
        assert [(one.name, one.classes) for one in world.state.nodes] == [("n1", ("beta2",))]
        assert world.labels("n2") == {}
        assert [one.name for one in world.state.storage] == ["beta2", "beta3"]
        path.write_text("cluster_storage: [beta2\n")
        await world.clock.advance(3)
        path.unlink()
        await world.clock.advance(3)
        assert world.names == ["n1"], "a file that is wrong or gone keeps the last good one"


async def test_storage_follows_classes_volumes_and_nodes() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.cluster.put(node(name))
    world.cluster.put(storage_class("local"))
    world.cluster.put(volume("v1", "local", "10G"))
    world.cluster.put(volume("v2", "unknown", "10G"))
    async with operating(world):
        [found] = world.state.storage
        assert (found.name, found.driver, found.quantity.allocatable) == ("local", "rancher", 200 * 10**9)
        assert found.quantity.allocated == 10 * 10**9
        world.cluster.remove(("v1", "PersistentVolume", "", "v1"))
        world.cluster.put(node("n2", unschedulable=True, labels=world.labels("n2")))
        await world.clock.advance(1)
        [found] = world.state.storage
        assert (found.quantity.allocatable, found.quantity.allocated) == (100 * 10**9, 0)


async def test_each_topic_is_published_in_both_spellings_and_late_subscribers_get_the_state() -> None:
    world = World()
    world.cluster.put(node())
    async with operating(world):
        for what in ("node", "nodes", "storage", "cluster"):
            assert world.bus.on(f"inventory-{what}") == world.bus.on(f"inventory.{what}") != []
        topics = ("inventory.cluster", "inventory-nodes", "inventory-config", "storage-classes", "gpu-ids")
        async with world.bus.subscribe(*topics) as late:
            assert world.state in [await anext(aiter(late)) for _ in topics]
