"""`KubeCluster` against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from provider.errors import ClusterError, Conflict
from provider.kube.client import KubeCluster
from provider.protocols.cluster import NAMESPACE, SECRET, SERVICE, WatchEvent
from tests.world.patience import eventually

if TYPE_CHECKING:
    from tests.conftest import DevnetCluster

pytestmark = [pytest.mark.devnet, pytest.mark.xdist_group("devnet")]


@pytest.fixture
async def cluster(devnet_cluster: DevnetCluster) -> AsyncIterator[KubeCluster]:
    client = KubeCluster(devnet_cluster.kubeconfig, watch_seconds=1)
    yield client
    await client.aclose()


def secret(namespace: str, name: str = "one", value: str = "YQ==", **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": {"kind-of": "test"}, **meta}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": value}}


async def test_what_is_applied_is_read_back_without_managed_fields(cluster: KubeCluster, namespace: str) -> None:
    stored = await cluster.apply(secret(namespace))
    read = await cluster.get(SECRET, "one", namespace=namespace)
    assert read == stored and "managedFields" not in stored["metadata"]
    assert read is not None and read["data"] == {"key": "YQ=="}


async def test_applying_the_same_again_keeps_the_resource_version(cluster: KubeCluster, namespace: str) -> None:
    first, second = [await cluster.apply(secret(namespace)) for _ in range(2)]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_apply_takes_over_what_another_manager_wrote(
    cluster: KubeCluster, devnet_cluster: DevnetCluster, namespace: str
) -> None:
    await devnet_cluster.kubectl_async("-n", namespace, "create", "secret", "generic", "one", "--from-literal=key=b")
    assert (await cluster.apply(secret(namespace)))["data"] == {"key": "YQ=="}


async def test_an_older_resource_version_is_a_conflict(cluster: KubeCluster, namespace: str) -> None:
    old = (await cluster.apply(secret(namespace)))["metadata"]["resourceVersion"]
    await cluster.apply(secret(namespace, value="Yg=="))
    with pytest.raises(Conflict, match=r"127\.0\.0\.1"):
        await cluster.apply(secret(namespace, value="Yw==", resourceVersion=old))
    with pytest.raises(Conflict):
        await cluster.delete(SECRET, "one", namespace=namespace, resource_version=old)
    assert (await cluster.get(SECRET, "one", namespace=namespace) or {})["data"] == {"key": "Yg=="}


async def test_deleting_says_whether_there_was_something(cluster: KubeCluster, namespace: str) -> None:
    version = (await cluster.apply(secret(namespace)))["metadata"]["resourceVersion"]
    assert await cluster.delete(SECRET, "one", namespace=namespace, resource_version=version)
    assert not await cluster.delete(SECRET, "one", namespace=namespace)
    assert await cluster.get(SECRET, "one", namespace=namespace) is None


async def test_lists_select_by_namespace_and_labels(cluster: KubeCluster, namespace: str) -> None:
    await cluster.apply(secret(namespace))
    await cluster.apply(secret(namespace, "two", labels={"kind-of": "other"}))
    found = await cluster.list(SECRET, namespace=namespace, labels={"kind-of": "test"})
    assert [obj["metadata"]["name"] for obj in found] == ["one"]
    assert {"apiVersion": "v1", "kind": "Secret"}.items() <= found[0].items()
    without = await cluster.list(SECRET, namespace=namespace, labels={"kind-of": None})
    assert {"one", "two"}.isdisjoint(obj["metadata"]["name"] for obj in without)
    assert namespace in {obj["metadata"]["name"] for obj in await cluster.list(NAMESPACE)}


async def test_lists_longer_than_a_page_are_whole(
    cluster: KubeCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.kube.client._PAGE", 3)
    await asyncio.gather(*(cluster.apply(secret(namespace, f"s{n}")) for n in range(8)))
    assert len(await cluster.list(SECRET, namespace=namespace)) == 8


async def test_status_is_written_beside_the_spec(cluster: KubeCluster, namespace: str) -> None:
    meta = {"name": "web", "namespace": namespace}
    head = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
    await cluster.apply({**head, "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]}})
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
    stored = await cluster.apply({**head, "status": status}, status=True)
    assert stored["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.7"
    assert stored["spec"]["ports"][0]["port"] == 80
    assert await cluster.get(SERVICE, "web", namespace=namespace) is not None


async def test_a_watch_tells_what_is_there_then_what_changes_and_outlives_its_requests(
    cluster: KubeCluster, namespace: str
) -> None:
    await cluster.apply(secret(namespace))
    seen, requests = asyncio.Queue[WatchEvent](), list[bool]()
    task = asyncio.create_task(_collect(cluster, namespace, seen, requests))
    try:
        assert await _next(seen) == ("ADDED", "one")
        await eventually(lambda: requests.count(True) > 1)  # the request was renewed
        await cluster.apply(secret(namespace, value="Yg=="))
        assert await _next(seen) == ("MODIFIED", "one")
        await cluster.apply(secret(namespace, "two"))
        assert await _next(seen) == ("ADDED", "two")
        await cluster.delete(SECRET, "one", namespace=namespace)
        assert await _next(seen) == ("DELETED", "one")
        assert seen.empty()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_namespace_is_terminating_before_it_is_gone_and_takes_nothing_new(
    cluster: KubeCluster, devnet_cluster: DevnetCluster, unique_name: str
) -> None:
    await devnet_cluster.kubectl_async("create", "namespace", unique_name)
    assert await cluster.delete(NAMESPACE, unique_name)
    with pytest.raises(ClusterError) as refused:
        await cluster.apply(secret(unique_name))
    assert refused.value.status == 403 and "terminated" in str(refused.value)


async def _collect(cluster: KubeCluster, namespace: str, seen: asyncio.Queue[WatchEvent], requests: list[bool]) -> None:
    labels = {"kind-of": "test"}
    async for event in cluster.watch(SECRET, namespace=namespace, labels=labels, current=requests.append):
        seen.put_nowait(event)


async def _next(seen: asyncio.Queue[WatchEvent]) -> tuple[str, str]:
    event = await asyncio.wait_for(seen.get(), 10)
    return event.type, event.object["metadata"]["name"]
