"""The rights of the inventory operator are what it asks of the API server: nothing is missing, and nothing is unused
(operators.md §6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from provider.errors import ClusterError
from provider.kube.client import KubeCluster
from provider.operators.inventory.ceph_scrape import ceph_df_in
from provider.operators.inventory.discovery_pod import LABELS, DiscoveryOptions, pod_name
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.process import CONTAINER, ask_through
from provider.operators.own_pod import own_container
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import POD
from stacks.cluster.inventory_rights import (
    CLUSTER_RULES,
    DISCOVERY_ACCOUNT,
    DISCOVERY_LABELS,
    DISCOVERY_POD,
    DISCOVERY_PORT,
    INVENTORY_CONTAINER,
    INVENTORY_PORTS,
    NAMESPACE_RULES,
    ROOK_RULES,
    Rule,
)
from tests.provider.operators.inventory.test_storage import ceph_cluster, longhorn_node, longhorn_setting
from tests.provider.operators.inventory.world import NAMESPACE, World, node, pod, storage_class
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually

Right = tuple[str, str, str, str]
"""Namespace (empty: the whole cluster), API group, resource with its subresource, verb."""


def rights(namespace: str, rules: Iterable[Rule]) -> set[Right]:
    flat = ((group, one, verb) for group, resources, verbs in rules for one in resources for verb in verbs)
    return {(namespace, *one) for one in flat}


def asked(method: str, path: str) -> Right:
    path, _, watch = path.partition("?")
    parts = path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = "/".join((rest[0], *rest[2:3]))
    verb = "watch" if watch else {"PATCH": "patch", "DELETE": "delete"}.get(method, "get" if len(rest) > 1 else "list")
    return namespace, group, resource, verb


def everything() -> RecordedCluster:
    """A cluster with each kind of object that the operator reads."""
    cluster = RecordedCluster(NAMESPACE, "rook-ceph", "longhorn-system")
    tools = pod("tools", namespace="rook-ceph")
    tools["metadata"]["labels"] = {"app": "rook-ceph-tools"}
    leftover = pod(pod_name("gone"), on="gone", namespace=NAMESPACE)
    leftover["metadata"]["labels"] = LABELS
    beta2 = storage_class("beta2", "rook-ceph.rbd.csi.ceph.com", pool="a", clusterID="rook-ceph")
    disks, setting = longhorn_node("a", available=1), longhorn_setting("storage-minimal-available-percentage", "1")
    for one in (node(), tools, leftover, beta2, ceph_cluster(), disks, setting):
        cluster.put(one)
    return cluster


async def test_every_right_is_used_and_none_is_missing(tmp_path: Path) -> None:
    cluster = everything()
    server, world = ApiServerInMemory(cluster, tmp_path), World(cluster=cluster)
    await server.start()
    client = KubeCluster(server.kubeconfig, timeout_seconds=2)
    discovery = DiscoveryOptions(NAMESPACE, "lessor:1")
    operator = InventoryOperator(
        client,
        OperatorOptions(discovery),
        ask=ask_through(client, discovery),
        ceph_df=ceph_df_in(client, client.pods, address=client.address),
        fetch=world.fetch,
        bus=world.bus,
        clock=SystemClock(),
    )
    tasks = [asyncio.create_task(world.kubelets()), asyncio.create_task(operator.run())]
    allowed = rights("", CLUSTER_RULES) | rights(NAMESPACE, NAMESPACE_RULES) | rights("rook-ceph", ROOK_RULES)
    implied = {(NAMESPACE, "", "pods", "create"), ("rook-ceph", "", "pods/exec", "create")}
    """An apply that makes an object needs `create` too; so does a command, on newer API servers."""

    def used() -> set[Right]:
        return {asked(*one) for one in server.requests}

    try:
        await own_container(client, CONTAINER, pod="operator-inventory-0", namespace=NAMESPACE)
        await eventually(lambda: tasks[1].done() or used() >= allowed - implied, seconds=60)
    except AssertionError:
        assert allowed - implied - used() == set()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.aclose()
        await server.stop()
    assert used() - allowed == set()


async def test_a_discovery_pod_that_does_not_answer_is_an_error_that_names_it(tmp_path: Path) -> None:
    server = ApiServerInMemory(RecordedCluster(NAMESPACE), tmp_path)
    await server.start()
    client = KubeCluster(server.kubeconfig, timeout_seconds=2)
    try:
        await client.through(POD, "p", "node", namespace=NAMESPACE, port=8081)
    except ClusterError as error:
        assert "p:8081" in str(error)
    finally:
        await client.aclose()
        await server.stop()


def test_the_data_for_the_cluster_stack_is_the_operator_s() -> None:
    assert (DiscoveryOptions("", "").account, LABELS) == (DISCOVERY_ACCOUNT, DISCOVERY_LABELS)
    assert (pod_name("n"), DiscoveryOptions("", "").port) == (f"{DISCOVERY_POD}n", DISCOVERY_PORT)
    assert INVENTORY_CONTAINER == CONTAINER
    assert INVENTORY_PORTS == {"rest": 8080, "grpc": 8081}
