"""The inventory operator survives what happens to an API server, to its objects and to clocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from provider.kube.client import KubeCluster
from provider.operators.inventory.discovery_pod import DiscoveryOptions
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.state import ClusterState
from provider.protocols.clock import SystemClock
from tests.provider.operators.inventory.world import NAMESPACE, World, node, operating, pod, storage_class, volume
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually


@dataclass
class Running:
    server: ApiServerInMemory
    operator: InventoryOperator
    task: asyncio.Task[None]

    @property
    def cluster(self) -> RecordedCluster:
        return self.server.cluster

    @property
    def state(self) -> ClusterState:
        return self.operator.publication.state or ClusterState()

    def cpu(self) -> dict[str, int]:
        assert not self.task.done(), self.task.exception()
        return {one.name: one.cpu.allocated for one in self.state.nodes}


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    cluster = RecordedCluster("lease", NAMESPACE)
    cluster.put(node())
    server, world = ApiServerInMemory(cluster, tmp_path), World(cluster=cluster)
    await server.start()
    client = KubeCluster(server.kubeconfig, timeout_seconds=2)
    options = OperatorOptions(DiscoveryOptions(NAMESPACE, "lessor:1"))
    operator = InventoryOperator(
        client,
        options,
        ask=world.ask,
        ceph_df=world.ceph_df,
        fetch=world.fetch,
        bus=world.bus,
        clock=SystemClock(),
    )
    task = asyncio.create_task(operator.run())
    found = Running(server, operator, task)
    try:
        await eventually(lambda: found.cpu() == {"n1": 0})
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.aclose()
        await server.stop()


async def test_a_restart_of_the_api_server_keeps_the_state_and_loses_no_change(running: Running) -> None:
    running.cluster.put(pod("before", cpu="1"))
    await eventually(lambda: running.cpu() == {"n1": 1000})
    await running.server.stop()
    running.cluster.remove(("v1", "Pod", "lease", "before"))
    running.cluster.put(pod("after", cpu="2"))
    running.cluster.put(node("n2"))
    assert running.cpu() == {"n1": 1000}, "what was published stays"
    await running.server.start()
    await eventually(lambda: running.cpu() == {"n1": 2000, "n2": 0})


async def test_watches_that_end_in_a_burst_of_changes_lose_none(running: Running) -> None:
    """Field problem B6."""
    for number in range(60):
        running.cluster.put(pod(f"p{number}", cpu="100m"))
        if number % 7 == 0:
            running.server.end_watches()
        if number % 3 == 0:
            running.cluster.remove(("v1", "Pod", "lease", f"p{number}"))
        await asyncio.sleep(0)
    await eventually(lambda: running.cpu() == {"n1": 40 * 100})


async def test_a_version_that_is_too_old_lists_again(running: Running) -> None:
    running.cluster.put(pod("a", cpu="1"))
    running.cluster.put(pod("b", cpu="1"))
    await eventually(lambda: running.cpu() == {"n1": 2000})
    running.cluster.remove(("v1", "Pod", "lease", "a"))
    running.server.expire()
    await eventually(lambda: running.cpu() == {"n1": 1000})
    running.cluster.put(pod("c", cpu="3"))
    await eventually(lambda: running.cpu() == {"n1": 4000})


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "ADDED", "object": {"metadata": {"name": 7, "labels": []}}}',
        b'{"type": "MODIFIED", "object": {"kind": "Pod", "metadata": [], "spec": 1}}',
        b'{"type": "ERROR", "object": {"code": 500, "message": "etcd leader changed"}}',
        b"{}",
        b"not JSON",
    ],
)
async def test_a_malformed_event_stops_nothing(running: Running, line: bytes) -> None:
    running.server.raw.append(line)
    running.cluster.put(pod("a", cpu="1"))
    await eventually(lambda: running.cpu() == {"n1": 1000})


def foreign() -> list[dict[str, Any]]:
    """Objects of others that no schema would let through, or that older servers stored."""
    bad_node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bad"}, "status": "up"}
    bad_pod = pod("bad", cpu="1")
    bad_pod["spec"]["containers"] = "web"
    bad_class = {**storage_class("bad"), "parameters": ["pool"]}
    bad_volume = {**volume("bad", "beta2", "1"), "spec": {"storageClassName": "beta2", "capacity": []}}
    return [bad_node, bad_pod, bad_class, bad_volume]


@pytest.mark.virtual_time
async def test_a_malformed_object_hides_no_other_and_is_named() -> None:
    world = World()
    world.cluster.put(node())
    world.cluster.put(pod("good", cpu="1"))
    for one in foreign():
        world.cluster.put(one)
    with capture_logs() as logs:
        async with operating(world):
            assert [(one.name, one.cpu.allocated) for one in world.state.nodes] == [("n1", 1000)]
            for one in foreign():
                world.cluster.put({**one, "metadata": {**one["metadata"], "labels": {"a": "b"}}})
            world.cluster.put(pod("more", cpu="1"))
            await world.clock.advance(1)
            assert world.state.nodes[0].cpu.allocated == 2000
    named = {(one["kind"], one["name"]) for one in logs if one["event"] == "inventory.malformed"}
    assert {("nodes", "bad"), ("pods", "bad")} <= named


@pytest.mark.virtual_time
@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0, 10 * 365 * 86400.0])
async def test_a_jump_of_the_clock_changes_nothing(jump_s: float) -> None:
    world = World(machines={"n1": {}})
    world.cluster.put(node())
    async with operating(world):
        asked = len(world.asked)
        world.clock.jump(jump_s)
        await world.clock.advance(5)
        assert world.names == ["n1"]
        assert len(world.asked) == asked, "no wait depends on the wall clock"
        world.cluster.put(pod("a", cpu="1"))
        await world.clock.advance(1)
        assert world.state.nodes[0].cpu.allocated == 1000
