"""Statuses from what the watches have reported: no request to the API server, and the same as from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lease.ids import LeaseId, namespace_name
from provider.errors import ClusterError
from provider.gateway.lease_objects import LeaseObjects, lease_reader
from provider.gateway.lease_status import lease_status
from provider.gateway.watched_objects import WatchedObjects, read_or_known
from provider.kube.labels import managed_labels
from provider.lifecycle.watches import Watcher
from provider.protocols.cluster import (
    DEPLOYMENT,
    MANIFEST,
    NAMESPACE,
    POD,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SERVICE,
    STATEFUL_SET,
    WatchEvent,
)
from provider.records.manifests import ManifestRecord, manifest_object, read_manifest
from tests.provider.gateway.world import place
from tests.provider.lifecycle.world import a_group, a_lease
from tests.world.cluster import FakeCluster, unreachable

_KINDS = (MANIFEST, NAMESPACE, DEPLOYMENT, STATEFUL_SET, SERVICE, PROVIDER_HOST, PROVIDER_LEASED_IP)
L, OTHER = a_lease(1), a_lease(2)


def _serve(cluster: FakeCluster, lease: LeaseId) -> None:
    space = namespace_name(lease)
    cluster.put(manifest_object(ManifestRecord(lease, a_group(), {}), namespace="lease"))
    place(cluster, NAMESPACE, space)
    place(cluster, DEPLOYMENT, "web", namespace=space, status={"replicas": 2, "availableReplicas": 1})
    place(cluster, STATEFUL_SET, "db", namespace=space, status={"replicas": 1, "currentReplicas": 1})
    ports = [{"port": 80, "nodePort": 30001, "name": "a"}]
    place(cluster, SERVICE, "web-np", namespace=space, spec={"type": "NodePort", "ports": ports})
    host = {"hostname": f"{lease.dseq}.example.com", "service_name": "web"}
    labels = managed_labels(lease)
    place(cluster, PROVIDER_HOST, host["hostname"], namespace="lease", labels=labels, spec=host)
    leased = {"port": 80, "external_port": 80, "protocol": "TCP", "service_name": "web"}
    name, status = f"ip-{lease.dseq}", {"address": "203.0.113.1"}
    place(cluster, PROVIDER_LEASED_IP, name, namespace="lease", labels=labels, spec=leased, status=status)


@asynccontextmanager
async def _watched(cluster: FakeCluster) -> AsyncIterator[WatchedObjects]:
    objects = WatchedObjects()
    watcher = Watcher(cluster, records="lease", check=lambda lease, after: None, observer=objects)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watcher.follow(kind)) for kind in (*_KINDS, POD)]
        await _settled()
        yield objects
        for task in tasks:
            task.cancel()


async def _settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_status_from_the_watches_is_the_one_from_the_api_server_and_makes_no_request() -> None:
    cluster = FakeCluster()
    _serve(cluster, L)
    async with _watched(cluster) as objects:
        _serve(cluster, OTHER)
        await _settled()
        calls: list[str] = []
        cluster.before = lambda operation, kind, name: calls.append(operation)
        found = {lease: objects.read(lease) for lease in (L, OTHER)}
        assert calls == []
        for lease, watched in found.items():
            asked = await lease_reader(cluster, "lease")(lease)
            assert watched is not None
            assert watched.manifest == asked.manifest
            assert watched.namespace and asked.namespace
            group = read_manifest(asked.manifest or {}).group
            documents = [
                lease_status(group, each, public_hostname="p.example.com", leased_ips=True) for each in (watched, asked)
            ]
            assert documents[0] == documents[1]
            assert documents[0]["services"]["web"]["available"] == 1
            assert documents[0]["services"]["web"]["uris"] == [f"{lease.dseq}.example.com"]


async def test_a_status_follows_what_changes_and_what_goes() -> None:
    cluster = FakeCluster()
    _serve(cluster, L)
    async with _watched(cluster) as objects:
        deployment = cluster.find(DEPLOYMENT, "web", namespace_name(L))
        assert deployment is not None
        cluster.put({**deployment, "status": {"replicas": 2, "availableReplicas": 2}}, status=True)
        moved = cluster.find(PROVIDER_HOST, "1.example.com", "lease")
        assert moved is not None
        cluster.put({**moved, "metadata": {**moved["metadata"], "labels": managed_labels(OTHER)}})
        await _settled()
        found, other = objects.read(L), objects.read(OTHER)
        assert found is not None and other is not None
        assert found.deployments[0]["status"]["availableReplicas"] == 2
        assert (len(found.hosts), len(other.hosts)) == (0, 1), "the hostname has gone to another lease"
        for key in [key for key in cluster.objects if key[1] != "Namespace"]:
            cluster.remove(key)
        cluster.remove(("v1", "Namespace", "", namespace_name(L)))
        cluster.settle()
        await _settled()
        gone = objects.read(L)
        assert gone is not None
        assert (gone.manifest, gone.namespace, gone.workloads, gone.services, gone.leased_ips) == (
            None,
            False,
            (),
            (),
            (),
        )
        assert not objects._places and not objects._place_of and not objects._manifests, "nothing is kept of it"


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.kind)
def test_nothing_is_answered_while_a_watch_is_not_current(kind: object) -> None:
    objects = WatchedObjects()
    for each in _KINDS:
        assert objects.read(L) is None
        objects.mark(each, True)
    objects.mark(POD, False)
    assert objects.read(L) is not None
    objects.mark(kind, False)  # type: ignore[arg-type]
    assert objects.read(L) is None


def test_of_an_object_only_what_a_status_reads_is_kept() -> None:
    objects = WatchedObjects()
    for each in _KINDS:
        objects.mark(each, True)
    meta = {"name": "web", "namespace": namespace_name(L), "uid": "u", "annotations": {"a": "b" * 1000}}
    objects.note(DEPLOYMENT, WatchEvent("ADDED", {"metadata": meta, "spec": {"x": 1}, "status": {"replicas": 1}}))
    found = objects.read(L)
    assert found is not None
    assert found.deployments == ({"metadata": {"name": "web"}, "status": {"replicas": 1}},)


@pytest.mark.virtual_time
async def test_an_api_server_that_hangs_keeps_no_tenant_waiting_for_what_is_known() -> None:
    """A frozen one takes requests and answers none; the watches notice it later."""
    cluster = FakeCluster()
    _serve(cluster, L)
    hangs = asyncio.Event()

    async def frozen(lease: LeaseId) -> LeaseObjects:
        await hangs.wait()
        raise AssertionError

    async with _watched(cluster) as objects:
        read = read_or_known(objects, frozen)
        assert (await read(L)).trouble == ""
        objects.mark(SERVICE, False)
        began = asyncio.get_running_loop().time()
        found = await read(L)
        assert asyncio.get_running_loop().time() - began == 1.0
        assert found.trouble == "the cluster does not answer; this is what it said last"
        assert replace(found, trouble="") == objects.last_known(L)


async def test_an_answer_of_the_api_server_goes_before_what_is_known_and_an_error_does_not() -> None:
    cluster = FakeCluster()
    _serve(cluster, L)
    async with _watched(cluster) as objects:
        objects.mark(SERVICE, False)
        read = read_or_known(objects, lease_reader(cluster, "lease"))
        assert (await read(L)).trouble == ""
        cluster.before = lambda *_: (_ for _ in ()).throw(unreachable())
        assert (await read(L)).trouble != ""
        with pytest.raises(ClusterError):
            await read(OTHER)  # the watches have never seen it: only the API server knows whether it exists


async def test_before_every_watch_has_reported_the_api_server_alone_knows() -> None:
    objects = WatchedObjects()
    for kind in _KINDS[1:]:
        objects.mark(kind, True)
    assert objects.last_known(L) is None
