"""Publishes the state on the bus, each topic in the Go provider's spelling and in that of the public documentation
(operators.md §2.2, §8 rows 1 and 2).

* `inventory-cluster`, `inventory.cluster`: `ClusterState`, retained
* `inventory-nodes`, `inventory.nodes`: the nodes of the state, retained
* `inventory-storage`, `inventory.storage`: the storage of the state
* `inventory-node`, `inventory.node`: `NodeChange`
* `inventory-config`: `InventoryConfig`, `storage-classes`: names and facts, `gpu-ids`: the registry, all retained
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provider.operators.inventory.config import InventoryConfig
from provider.operators.inventory.facts import StorageClassFacts
from provider.operators.inventory.registry import GpuRegistry
from provider.operators.inventory.state import ClusterState, NodeState, StorageState
from provider.protocols import Bus
from provider.protocols.bus import Topic

__all__ = ["CLUSTER", "NodeChange", "Publication"]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node that is offered with new amounts; `node` is None if it is offered no longer."""

    name: str
    node: NodeState | None


CLUSTER: Topic[ClusterState] = Topic("inventory-cluster", "inventory.cluster", shared=ClusterState)
_NODES: Topic[tuple[NodeState, ...]] = Topic("inventory-nodes", "inventory.nodes")
_STORAGE: Topic[tuple[StorageState, ...]] = Topic("inventory-storage", "inventory.storage")
_NODE: Topic[NodeChange] = Topic("inventory-node", "inventory.node")
_CONFIG: Topic[InventoryConfig] = Topic("inventory-config")
_CLASSES: Topic[Mapping[str, StorageClassFacts]] = Topic("storage-classes")
_GPUS: Topic[GpuRegistry] = Topic("gpu-ids")


class Publication:
    """`state` is the newest state, None before the first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.state: ClusterState | None = None

    def publish(self, state: ClusterState) -> None:
        """Publish what differs from the last state; the first one in any case."""
        before, self.state = self.state, state
        if state == before:
            return
        old, new = _by_name(before), _by_name(state)
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                self._bus.publish(_NODE, NodeChange(name, new.get(name)))
        if before is None or before.nodes != state.nodes:
            self._bus.publish(_NODES, state.nodes, retain=True)
        if before is None or before.storage != state.storage:
            self._bus.publish(_STORAGE, state.storage)
        self._bus.publish(CLUSTER, state, retain=True)

    def config(self, config: InventoryConfig) -> None:
        self._bus.publish(_CONFIG, config, retain=True)

    def classes(self, classes: Mapping[str, StorageClassFacts]) -> None:
        self._bus.publish(_CLASSES, classes, retain=True)

    def registry(self, registry: GpuRegistry) -> None:
        self._bus.publish(_GPUS, registry, retain=True)


def _by_name(state: ClusterState | None) -> dict[str, NodeState]:
    return {node.name: node for node in state.nodes} if state else {}
