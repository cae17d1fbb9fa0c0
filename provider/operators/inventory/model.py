"""The facts of the cluster in memory and the state that follows from them. Only the nodes that a change concerns are
computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from provider.inventory.sources import Key
from provider.operators.inventory.answers import Hardware
from provider.operators.inventory.config import DEFAULT, InventoryConfig
from provider.operators.inventory.facts import NodeFacts, PodFacts, StorageClassFacts, Volume
from provider.operators.inventory.registry import GpuRegistry, bundled_registry
from provider.operators.inventory.state import ClusterState, NodeState, StorageState, Verdict, judge, node_state
from provider.operators.inventory.storage.ceph import CephCluster, Pool, ceph_storage
from provider.operators.inventory.storage.local_path import local_path_storage
from provider.operators.inventory.storage.longhorn import LonghornDisk, longhorn_storage

__all__ = ["ClusterModel", "StorageFacts"]


@dataclass(slots=True)
class StorageFacts:
    """What the storage systems say. `ceph`: the newest answer of each cluster."""

    classes: Mapping[str, StorageClassFacts] = field(default_factory=dict)
    volumes: dict[Key, Volume] = field(default_factory=dict)
    ceph: dict[CephCluster, Mapping[str, Pool]] = field(default_factory=dict)
    disks: tuple[LonghornDisk, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


class ClusterModel:
    """`verdicts`: what follows for each node. `hardware`: the newest answers, read and not changed here."""

    def __init__(self, hardware: Mapping[str, Hardware]) -> None:
        self._hardware = hardware
        self._config: InventoryConfig = DEFAULT
        self._registry: GpuRegistry = bundled_registry()
        self._pods: dict[str, dict[Key, PodFacts]] = {}
        self._where: dict[Key, str] = {}
        self._dirty: set[str] = set()
        self._states: dict[str, NodeState] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.storage = StorageFacts()

    @property
    def config(self) -> InventoryConfig:
        """The configuration with the managed classes that exist only."""
        return self._config.available(one.name for one in self.storage.classes.values() if one.managed)

    def configure(self, config: InventoryConfig) -> None:
        self._config = config
        self.judge_all()

    def register(self, registry: GpuRegistry) -> None:
        self._registry = registry
        self.judge_all()

    def judge_all(self) -> None:
        """Every node is computed again: a rule that concerns all of them changed."""
        self._dirty.update(self.nodes)

    def touch(self, node: str) -> None:
        """The node is computed again: its hardware changed."""
        self._dirty.add(node)

    def node(self, name: str, facts: NodeFacts | None) -> None:
        """A node as it is now; None if it is gone."""
        if facts is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = facts
        self._dirty.add(name)

    def pod(self, key: Key, facts: PodFacts | None) -> None:
        """A pod as it is now; None if it takes nothing."""
        before = self._where.pop(key, None)
        if before is not None:
            self._dirty.add(before)
            self._pods[before].pop(key, None)
            if not self._pods[before]:
                del self._pods[before]
        if facts is not None:
            self._dirty.add(facts.node)
            self._where[key] = facts.node
            self._pods.setdefault(facts.node, {})[key] = facts

    def compute(self) -> tuple[ClusterState, frozenset[str]]:
        """The state now, and the nodes that were computed again."""
        judged, config = frozenset(self._dirty), self.config
        self._dirty.clear()
        for name in judged:
            self._judge(name, config)
        nodes = tuple(self._states[name] for name in sorted(self._states))
        return ClusterState(nodes, self._storage(nodes, config)), judged

    def _judge(self, name: str, config: InventoryConfig) -> None:
        facts, hardware = self.nodes.get(name), self._hardware.get(name)
        if facts is None:
            self.verdicts.pop(name, None)
            self._states.pop(name, None)
            return
        verdict = judge(facts, hardware, config=config, registry=self._registry)
        self.verdicts[name] = verdict
        if not verdict.offered:
            self._states.pop(name, None)
            return
        pods = self._pods.get(name, {})
        state = node_state(facts, hardware, pods.values(), verdict=verdict, registry=self._registry)
        if self._states.get(name) != state:
            self._states[name] = state

    def _storage(self, nodes: Iterable[NodeState], config: InventoryConfig) -> tuple[StorageState, ...]:
        """The offered classes, by name. A class of two systems cannot be, since it has one provisioner."""
        offered = set(config.cluster_storage or ())
        classes = [one for one in self.storage.classes.values() if one.name in offered]
        taken = self._allocated()
        found = [
            *ceph_storage(classes, self.storage.ceph, allocated=taken),
            *longhorn_storage(classes, self.storage.disks, settings=self.storage.settings, allocated=taken),
            *local_path_storage(classes, nodes, allocated=taken),
        ]
        return tuple(sorted(found, key=lambda one: one.name))

    def _allocated(self) -> dict[str, int]:
        """Storage class → bytes of its volumes. A volume of a class that no longer exists counts for nothing else."""
        taken: dict[str, int] = {}
        for one in self.storage.volumes.values():
            taken[one.storage_class] = taken.get(one.storage_class, 0) + one.size_bytes
        return taken
