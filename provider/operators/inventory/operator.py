"""The inventory operator: follows the cluster, discovers hardware, labels nodes and publishes the state (operators.md
§2).

Whatever fails is tried again, and the published state stays as it was meanwhile. Only a defect ends the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import structlog

from provider.inventory.sources import Key, Source, SourceReader
from provider.operators.inventory.ceph_scrape import CephDf, CephScraper
from provider.operators.inventory.config_source import ConfigSource
from provider.operators.inventory.discovery import Ask, Discovery, PodState, pod_state
from provider.operators.inventory.discovery_pod import LABELS, DiscoveryOptions
from provider.operators.inventory.facts import (
    NodeFacts,
    PodFacts,
    StorageClassFacts,
    Volume,
    node_facts,
    pod_facts,
    storage_class,
    volume,
)
from provider.operators.inventory.label_writer import LabelWriter
from provider.operators.inventory.labels import label_changes
from provider.operators.inventory.model import ClusterModel
from provider.operators.inventory.publication import Publication
from provider.operators.inventory.registry_source import Fetch, RegistrySource
from provider.operators.inventory.storage.ceph import CephCluster, Pool, ceph_cluster
from provider.operators.inventory.storage.longhorn import LonghornDisk, Setting, disks, setting
from provider.protocols import Bus, Clock, Cluster
from provider.protocols.cluster import NODE, PERSISTENT_VOLUME, POD, STORAGE_CLASS, Kind

__all__ = ["InventoryOperator", "OperatorOptions", "Readings"]

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)
_SETTLE_S = 0.1
"""Changes come in bursts, and one computation covers them."""
_CEPH_CLUSTER = Kind("ceph.rook.io/v1", "CephCluster", "cephclusters")
_LONGHORN_NODE = Kind("longhorn.io/v1beta2", "Node", "nodes")
_LONGHORN_SETTING = Kind("longhorn.io/v1beta2", "Setting", "settings")


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """`config`: the configuration, see `ConfigSource`. `gpu_file`: an operator's own entries of the GPU registry."""

    discovery: DiscoveryOptions
    config: str = ""
    gpu_file: Path | None = None
    registry_period_s: float = 300.0


@dataclass(slots=True)
class Readings:
    """Which kinds of objects cannot be read at present, each with the reason."""

    failing: dict[str, str] = field(default_factory=dict)

    def read(self, kind: str) -> None:
        self.failing.pop(kind, None)

    def failed(self, kind: str, error: str) -> None:
        self.failing[kind] = error


class InventoryOperator:
    """`publication` has the newest state. `run` must run as a task; `readings` says what cannot be read."""

    def __init__(
        self,
        cluster: Cluster,
        options: OperatorOptions,
        *,
        ask: Ask,
        ceph_df: CephDf,
        fetch: Fetch,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._changed = asyncio.Event()
        self.readings = Readings()
        self.publication = Publication(bus)
        self._config = ConfigSource(options.config, clock=clock, changed=self._configure)
        self._registry = RegistrySource(
            fetch, period_s=options.registry_period_s, clock=clock, changed=self._register, overrides=options.gpu_file
        )
        self._labels = LabelWriter(cluster, clock)
        self._discovery = Discovery(cluster, options.discovery, ask=ask, clock=clock, changed=self._hardware)
        self._model = ClusterModel(self._discovery.found)
        self._ceph = CephScraper(ceph_df, clusters=self._ceph_clusters, clock=clock, changed=self._ceph_pools)
        self._reader = SourceReader(cluster, clock=clock, readings=self.readings, changed=self._objects)
        self._sources = _sources(options.discovery.namespace)
        self._takers: Mapping[str, Callable[[Iterable[Key]], None]] = {
            "nodes": self._take_nodes,
            "pods": self._take_pods,
            "discovery": self._take_discovery,
            "classes": self._take_classes,
            "volumes": self._take_volumes,
            "ceph": lambda _: self._ceph.ask(),
            "longhorn_nodes": self._take_longhorn,
            "longhorn_settings": self._take_longhorn,
        }

    async def run(self) -> None:
        """For ever. The first state is published when nodes, pods, classes and volumes were all read once."""
        self._configure()
        self._register()
        parts = (self._config, self._registry, self._labels, self._discovery, self._ceph)
        async with asyncio.TaskGroup() as group:
            for name, source in self._sources.items():
                group.create_task(self._reader.keep(source), name=f"inventory {name}")
            for part in parts:
                group.create_task(part.run(), name=f"inventory {type(part).__name__}")
            group.create_task(self._publish(), name="inventory publication")

    async def _publish(self) -> None:
        for source in self._sources.values():
            await source.listed.wait()
        _log.info("inventory.listed", nodes=len(self._model.nodes))
        while True:
            self._changed.clear()
            state, judged = self._model.compute()
            for name in judged:
                self._follow(name)
            self.publication.publish(state)
            await self._changed.wait()
            await self._clock.sleep(_SETTLE_S)

    def _follow(self, name: str) -> None:
        """What a node needs after it was judged: labels, and a discovery pod while it is ready."""
        facts, verdict = self._model.nodes.get(name), self._model.verdicts.get(name)
        if facts is None or verdict is None:
            self._labels.want(name, None)
            self._discovery.forget(name)
            return
        self._discovery.want(name, wanted=facts.ready)
        changes = label_changes(dict(facts.labels), verdict.labels, cards=verdict.cards, have_cards=facts.cards)
        self._labels.want(name, changes)

    def _objects(self, source: Source, keys: Iterable[Key]) -> None:
        name = next(name for name, one in self._sources.items() if one is source)
        self._takers[name](keys)
        self._changed.set()

    def _take_nodes(self, keys: Iterable[Key]) -> None:
        known = self._sources["nodes"].known
        for key in keys:
            facts = _as(known.get(key), NodeFacts)
            self._model.node(key[1], facts)
            if facts is not None:  # pods are made while the other kinds are still read
                self._discovery.want(key[1], wanted=facts.ready)

    def _take_pods(self, keys: Iterable[Key]) -> None:
        known = self._sources["pods"].known
        for key in keys:
            self._model.pod(key, _as(known.get(key), PodFacts))

    def _take_discovery(self, keys: Iterable[Key]) -> None:
        known = self._sources["discovery"].known
        for key in keys:
            self._discovery.seen(key[1], _as(known.get(key), PodState))

    def _take_classes(self, _: Iterable[Key]) -> None:
        found = _values(self._sources["classes"], StorageClassFacts)
        self._model.storage.classes = {one.name: one for one in found}
        self._model.judge_all()
        self.publication.classes(self._model.storage.classes)
        self._ceph.ask()

    def _take_volumes(self, keys: Iterable[Key]) -> None:
        known, volumes = self._sources["volumes"].known, self._model.storage.volumes
        for key in keys:
            volumes.pop(key, None)
            if (found := _as(known.get(key), Volume)) is not None:
                volumes[key] = found
        self._ceph.ask()

    def _take_longhorn(self, _: Iterable[Key]) -> None:
        listed = self._sources["longhorn_nodes"].known.values()
        found = (disk for one in listed if isinstance(one, tuple) for disk in one)
        self._model.storage.disks = tuple(disk for disk in found if isinstance(disk, LonghornDisk))
        settings = _values(self._sources["longhorn_settings"], Setting)
        self._model.storage.settings = {one.name: one.value for one in settings}

    def _ceph_clusters(self) -> list[CephCluster]:
        return _values(self._sources["ceph"], CephCluster)

    def _ceph_pools(self, pools: dict[CephCluster, Mapping[str, Pool]]) -> None:
        self._model.storage.ceph = pools
        self._changed.set()

    def _hardware(self, node: str) -> None:
        self._model.touch(node)
        self._changed.set()

    def _configure(self) -> None:
        self._model.configure(self._config.current)
        self.publication.config(self._config.current)
        self._changed.set()

    def _register(self) -> None:
        self._model.register(self._registry.current)
        self.publication.registry(self._registry.current)
        self._changed.set()


def _sources(namespace: str) -> dict[str, Source]:
    """`namespace`: of the discovery pods."""
    return {
        "nodes": Source(NODE, node_facts, built_in=True),
        "pods": Source(POD, pod_facts, built_in=True),
        "discovery": Source(POD, pod_state, namespace=namespace, labels=LABELS, built_in=True),
        "classes": Source(STORAGE_CLASS, storage_class, built_in=True),
        "volumes": Source(PERSISTENT_VOLUME, volume, built_in=True),
        "ceph": Source(_CEPH_CLUSTER, ceph_cluster),
        "longhorn_nodes": Source(_LONGHORN_NODE, disks),
        "longhorn_settings": Source(_LONGHORN_SETTING, setting),
    }


def _as(value: object, kind: type[_T]) -> _T | None:
    return value if isinstance(value, kind) else None


def _values(source: Source, kind: type[_T]) -> list[_T]:
    return [one for one in source.known.values() if isinstance(one, kind)]
