"""The lists of a start: what they hold of a lease goes when it was used, and is never taken for "not there"."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from lease.ids import LeaseId, namespace_name
from provider.kube.labels import managed_labels
from provider.lifecycle.cluster_lists import ClusterLists, _Listed, _ListsTooShort
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, WatchEvent

LEASES = [LeaseId("akash1tenant", dseq, 1, 1, "akash1us") for dseq in (1, 2)]


class Traced(dict[str, Any]):
    """A dictionary that tests can find again."""


def listed() -> ClusterLists:
    manifests, deployments = [], []
    for lease in LEASES:
        name = namespace_name(lease)
        meta = {"name": name, "namespace": "lease", "labels": managed_labels(lease), "resourceVersion": "5"}
        manifests.append({"kind": "Manifest", "metadata": meta})
        meta = {"name": "web", "namespace": name, "resourceVersion": "7"}
        deployments.append(Traced(kind="Deployment", metadata=meta))
    return ClusterLists({MANIFEST: manifests, DEPLOYMENT: deployments})


def kept() -> int:
    gc.collect()
    return sum(isinstance(each, Traced) for each in gc.get_objects())


async def test_the_objects_of_a_lease_go_when_its_part_was_used_and_are_not_called_absent() -> None:
    lists, before = listed(), kept()
    over = _Listed(lists._kinds, lists._by_place, lists._gone)
    first, second = map(namespace_name, LEASES)
    lists.drop(LEASES[0])
    assert (before, kept()) == (2, 1) and not lists.used_up
    with pytest.raises(_ListsTooShort):
        await over.get(DEPLOYMENT, "web", namespace=first)
    assert await over.get(DEPLOYMENT, "web", namespace=second)
    lists.drop(LEASES[1])
    assert kept() == 0 and lists.used_up


def test_versions_are_known_without_the_objects() -> None:
    lists = listed()
    known = lists.versions()
    for lease in LEASES:
        lists.drop(lease)
    del lists
    assert kept() == 0
    meta = {"name": "web", "namespace": namespace_name(LEASES[0])}
    assert known(WatchEvent("ADDED", {"kind": "Deployment", "metadata": {**meta, "resourceVersion": "7"}}))
    assert not known(WatchEvent("ADDED", {"kind": "Deployment", "metadata": {**meta, "resourceVersion": "8"}}))
