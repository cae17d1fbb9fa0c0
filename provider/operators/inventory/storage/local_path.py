"""The classes of Rancher's local-path provisioner: folders on the disks of the nodes (operators.md §2.9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from provider.operators.inventory.facts import StorageClassFacts
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.state import NodeState, StorageState

__all__ = ["PROVISIONER", "local_path_storage"]

PROVISIONER = "rancher.io/local-path"
_DRIVER = "rancher"


def local_path_storage(
    classes: Iterable[StorageClassFacts], nodes: Iterable[NodeState], *, allocated: Mapping[str, int]
) -> list[StorageState]:
    """One entry for each class. Its size is the ephemeral storage of the nodes that offer the class. `allocated`: class
    → bytes of its volumes.
    """
    offering = list(nodes)
    found = []
    for one in classes:
        if one.provisioner == PROVISIONER:
            size = sum(node.ephemeral.allocatable for node in offering if one.name in node.classes)
            pair = ResourcePair(size, size, allocated.get(one.name, 0))
            found.append(StorageState(one.name, pair, _DRIVER, one.provisioner, one.iops))
    return found
