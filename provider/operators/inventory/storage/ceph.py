"""The classes of Rook-Ceph: `ceph df` says what a pool can still hold (operators.md §2.9)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from provider.operators.inventory.facts import StorageClassFacts
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.state import StorageState

__all__ = ["CephCluster", "Pool", "ceph_cluster", "ceph_pools", "ceph_storage", "is_ceph"]

_SUFFIX = ".csi.ceph.com"
_DRIVER = "ceph"


@dataclass(frozen=True, slots=True)
class CephCluster:
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Bytes that can still be written, and bytes of data that were written, both without the copies."""

    free_bytes: int
    stored_bytes: int


def is_ceph(storage_class: StorageClassFacts) -> bool:
    return storage_class.provisioner.endswith(_SUFFIX)


def ceph_cluster(obj: Mapping[str, Any]) -> CephCluster | None:
    """A CephCluster that is ready; None for any other."""
    if (obj.get("status") or {}).get("state") != "Created":
        return None
    return CephCluster(obj["metadata"]["name"], obj["metadata"]["namespace"])


def ceph_pools(text: str) -> dict[str, Pool]:
    """The pools of `ceph df --format json`, by name. Raises ValueError for another form."""
    try:
        listed = json.loads(text)["pools"]
        return {str(one["name"]): _pool(one["stats"]) for one in listed}
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"ceph df answered another form: {error!r}") from error


def _pool(stats: Mapping[str, Any]) -> Pool:
    return Pool(max(0, int(stats["max_avail"])), max(0, int(stats.get("stored", 0))))


def ceph_storage(
    classes: Iterable[StorageClassFacts],
    pools: Mapping[CephCluster, Mapping[str, Pool]],
    *,
    allocated: Mapping[str, int],
) -> list[StorageState]:
    """One entry for each class whose pool was found. `clusterID` of a class is the namespace of its cluster; its name
    counts too, as for the Go provider.

    A pool's free bytes do not include what is stored, and the volumes of a class do, so the size is both together: what
    is left after the volumes counts nothing twice.
    """
    found = []
    for one in classes:
        pool = _pool_of(one, pools) if is_ceph(one) else None
        if pool is not None:
            size = pool.free_bytes + pool.stored_bytes
            pair = ResourcePair(size, size, allocated.get(one.name, 0))
            found.append(StorageState(one.name, pair, _DRIVER, one.provisioner, one.iops))
    return found


def _pool_of(one: StorageClassFacts, pools: Mapping[CephCluster, Mapping[str, Pool]]) -> Pool | None:
    by_namespace = [found for cluster, found in pools.items() if cluster.namespace == one.cluster_id]
    by_name = [found for cluster, found in pools.items() if cluster.name == one.cluster_id]
    return next((found[one.pool] for found in (*by_namespace, *by_name) if one.pool in found), None)
