"""The inventory operator over a cluster in memory, whose kubelets run discovery pods at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from provider.errors import ClusterError
from provider.operators.inventory.discovery_pod import DiscoveryOptions, pod_name
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.registry_source import RegistryError
from provider.operators.inventory.state import ClusterState
from provider.protocols.cluster import NODE, POD
from tests.world.bus import FakeBus
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock

__all__ = ["NAMESPACE", "World", "card", "cards", "node", "operating", "pod", "storage_class", "volume"]

NAMESPACE = "akash-services"


def node(
    name: str = "n1", *, ready: str = "True", labels: Mapping[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """A node of 16 cores, 32 GiB and 100 GB. `resources` adds to capacity and allocatable."""
    resources = {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "100G", "pods": "110"} | more.pop("resources", {})
    allocatable = {**resources, **more.pop("allocatable", {})}
    conditions = [{"type": "Ready", "status": ready}, *more.pop("conditions", ())]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": more,
        "status": {"conditions": conditions, "capacity": resources, "allocatable": allocatable},
    }


def pod(
    name: str, *, on: str = "n1", namespace: str = "lease", phase: str = "Running", **requests: str
) -> dict[str, Any]:
    names = {"ephemeral": "ephemeral-storage", "gpu": "nvidia.com/gpu"}
    asked = {names.get(key, key): value for key, value in requests.items()}
    container = {"name": "c", "resources": {"requests": asked}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


def storage_class(name: str, provisioner: str = "rancher.io/local-path", **parameters: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"akash.network": "true"}},
        "provisioner": provisioner,
        "parameters": parameters,
    }


def volume(name: str, storage_class: str, size: str) -> dict[str, Any]:
    spec = {"storageClassName": storage_class, "capacity": {"storage": size}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def card(vendor: str, product: str) -> dict[str, Any]:
    return {"address": "0000:41:00.0", "index": 0, "pci": {"vendor": {"id": vendor}, "product": {"id": product}}}


def cards(*ids: tuple[str, str]) -> dict[str, Any]:
    """The answers of a machine with these cards and one processor."""
    processor = {"id": 0, "vendor": "AuthenticAMD", "model": "AMD EPYC 7763", "total_hardware_threads": 16}
    return {"cpu": {"processors": [processor]}, "gpu": {"cards": [card(*one) for one in ids] or None}}


@dataclass
class World:
    """`machines`: the answers of each node's hardware server. A node without one has a server that does not answer."""

    cluster: FakeCluster = field(default_factory=lambda: FakeCluster("lease", NAMESPACE))
    bus: FakeBus = field(default_factory=FakeBus)
    clock: VirtualClock = field(default_factory=VirtualClock)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    registry: bytes | None = None
    ceph: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    operator: InventoryOperator | None = None

    @property
    def state(self) -> ClusterState:
        assert self.operator is not None
        assert self.operator.publication.state is not None
        return self.operator.publication.state

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.state.nodes]

    def labels(self, name: str = "n1") -> dict[str, str]:
        found = self.cluster.find(NODE, name)
        assert found is not None
        return dict(found["metadata"].get("labels") or {})

    def discovery_pod(self, name: str = "n1") -> dict[str, Any] | None:
        return self.cluster.find(POD, pod_name(name), NAMESPACE)

    async def ask(self, pod: str, namespace: str) -> Mapping[str, Any]:
        found = self.cluster.find(POD, pod, namespace)
        assert found is not None, f"{pod} is asked and does not exist"
        name = found["spec"]["nodeName"]
        self.asked.append(name)
        if name not in self.machines:
            raise ClusterError(self.cluster.address, "connection refused")
        return self.machines[name]

    async def fetch(self) -> bytes:
        if self.registry is None:
            raise RegistryError("no route to host")
        return self.registry

    async def ceph_df(self, namespace: str) -> str:
        if namespace not in self.ceph:
            raise ClusterError(self.cluster.address, "no pod runs")
        return self.ceph[namespace]

    async def kubelets(self) -> None:
        """Discovery pods run as soon as they exist."""
        async for event in self.cluster.watch(POD, namespace=NAMESPACE):
            if event.type != "DELETED" and "status" not in event.object:
                self.cluster.put({**event.object, "status": {"phase": "Running"}}, status=True)


@asynccontextmanager
async def operating(world: World, **options: Any) -> AsyncIterator[World]:
    """The operator runs; a second has passed."""
    privileged = options.pop("privileged", False)
    discovery = DiscoveryOptions(NAMESPACE, "lessor:1", privileged=privileged)
    world.operator = InventoryOperator(
        world.cluster,
        OperatorOptions(discovery, **options),
        ask=world.ask,
        ceph_df=world.ceph_df,
        fetch=world.fetch,
        bus=world.bus,
        clock=world.clock,
    )
    tasks = [asyncio.create_task(world.kubelets()), asyncio.create_task(world.operator.run())]
    try:
        await world.clock.advance(1)
        assert not tasks[1].done(), tasks[1].exception()
        yield world
        assert not tasks[1].done(), tasks[1].exception()
    finally:
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
