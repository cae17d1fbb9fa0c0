"""The fake cluster behind a network, with controllers: namespaces go slowly, pods are scheduled, become ready or crash.

Watches keep the contract of `Cluster.watch`: they may be late, repeat themselves and break, and after a break they list
again and say what went. What is never told is never assumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from provider.errors import ClusterError, Conflict
from provider.operators.objects import NODE, Kind, WatchEvent
from provider.units import parse_quantity
from tests.fakes.cluster import FakeCluster, Key, unreachable
from tests.simulation.faults import Faults

__all__ = ["Remover", "SimulatedCluster"]

Remover = Callable[[str, Key], None]
_WORKLOADS = ("Deployment", "StatefulSet")


class SimulatedCluster(FakeCluster):
    """`actor` is whoever acts now ("us" unless a controller or a human says otherwise); `removed` hears of it."""

    def __init__(self, faults: Faults, *, nodes: int, cpu_milli: int) -> None:
        super().__init__()
        self._faults = faults
        self.actor = "us"
        self.removed: Remover = lambda actor, key: None
        self.crashing: set[str] = set()
        self._goes_at: dict[str, float] = {}
        self._cpu_milli = cpu_milli
        for number in range(nodes):
            self.put(_node(f"n{number}", cpu_milli))

    def remove(self, key: Key) -> None:
        self.removed(self.actor, key)
        super().remove(key)

    async def _ask(self, operation: str, name: str) -> None:
        await self._faults.latency("slow cluster")
        if self._faults.dead or self._faults.hit("cluster away", 1.0):
            raise unreachable()
        if self._faults.hit("cluster errors"):
            raise ClusterError(self.address, "internal error occurred", status=500)
        if operation == "write" and self._faults.hit("conflicts"):
            raise Conflict(self.address, f"{name}: the object has been modified", status=409)

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        await self._ask("get", name)
        return await super().get(kind, name, namespace=namespace)

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        await self._ask("list", "")
        return await super().list(kind, namespace=namespace, labels=labels)

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        await self._ask("write", obj["metadata"]["name"])
        return await super().apply(obj, status=status)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        await self._ask("write", name)
        return await super().delete(kind, name, namespace=namespace, resource_version=resource_version)

    async def watch(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[WatchEvent]:
        """Segments: list, follow until the connection breaks, wait, list again."""
        known: dict[Key, dict[str, Any]] = {}
        while True:
            async for event in self._segment(kind, namespace, labels, known):
                yield event
                if self._faults.hit("repeated events"):
                    yield event
            await asyncio.sleep(self._faults.random.uniform(0.5, 5.0))

    async def _segment(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None, known: dict[Key, dict[str, Any]]
    ) -> AsyncIterator[WatchEvent]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        entry = (kind, namespace, dict(labels or {}), queue)
        try:
            found = await self.list(kind, namespace=namespace, labels=labels)
        except ClusterError:
            return
        self._watchers.append(entry)
        try:
            now = {_key(obj): obj for obj in found}
            for key in [key for key in known if key not in now]:
                yield WatchEvent("DELETED", known.pop(key))
            for key, obj in now.items():
                known[key] = obj
                yield WatchEvent("ADDED", obj)
            async for event in self._live(queue):
                key = _key(event.object)
                known.pop(key, None)
                if event.type != "DELETED":
                    known[key] = event.object
                yield event
        finally:
            self._watchers.remove(entry)

    async def _live(self, queue: asyncio.Queue[WatchEvent]) -> AsyncIterator[WatchEvent]:
        while True:
            event = await queue.get()
            if self._faults.on("cluster away") or self._faults.hit("lost events", 0.3):
                return
            await self._faults.latency("late events")
            yield event

    async def controllers(self) -> None:
        """For ever: what the controllers of a cluster do, a little every second."""
        while True:
            await asyncio.sleep(self._faults.random.uniform(0.5, 1.5))
            self.actor = "controller"
            try:
                self._finish_namespaces()
                self._run_workloads()
            finally:
                self.actor = "us"

    def _finish_namespaces(self) -> None:
        now = asyncio.get_running_loop().time()
        for key in [key for key in self.objects if key[1] == "Namespace" and self.terminating(key[3])]:
            slow = self._faults.hit("slow namespaces")
            at = self._goes_at.setdefault(key[3], now + self._faults.random.uniform(0, 60 if slow else 5))
            if now < at:
                continue
            del self._goes_at[key[3]]
            for inner in [inner for inner in self.objects if inner[2] == key[3]]:
                self.remove(inner)
            self._tell("DELETED", self.objects.pop(key))

    def _run_workloads(self) -> None:
        alive = {key for key in self.objects if key[1] in _WORKLOADS}
        for key in [key for key in self.objects if key[1] == "Pod" and ("apps/v1", *self._owner(key)) not in alive]:
            self.remove(key)
        for key in sorted(alive):
            obj = self.objects[key]
            self._pod(key, obj)
            self.make_ready(obj, 0 if self._faults.hit("crash loops", 0.2) else None)

    def _free_cpu(self) -> dict[str, int]:
        free = dict.fromkeys(self.named(NODE), self._cpu_milli)
        for key, obj in self.objects.items():
            if key[1] == "Pod":
                free[obj["spec"]["nodeName"]] -= _pod_cpu(obj["spec"])
        return free

    def _owner(self, pod: Key) -> tuple[str, str, str]:
        labels = self.objects[pod]["metadata"]["labels"]
        return str(labels["owner-kind"]), pod[2], str(labels["owner-name"])

    def _pod(self, key: Key, workload: Mapping[str, Any]) -> None:
        """One pod of a workload, on the emptiest node if it has the room: as the scheduler does, not as we promised."""
        name = f"{key[3]}-0"
        if ("v1", "Pod", key[2], name) in self.objects or self.terminating(key[2]):
            return
        labels = {"akash.network": "true", "akash.network/manifest-service": key[3]}
        meta = {"name": name, "namespace": key[2], "labels": labels | {"owner-kind": key[1], "owner-name": key[3]}}
        containers = workload["spec"]["template"]["spec"]["containers"]
        spec: dict[str, Any] = {"containers": [{"resources": item["resources"]} for item in containers]}
        node, free = max(self._free_cpu().items(), key=lambda item: item[1])
        if free < _pod_cpu(spec):
            return
        spec["nodeName"] = node
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}})


def _pod_cpu(spec: Mapping[str, Any]) -> int:
    return sum(int(parse_quantity(item["resources"]["requests"]["cpu"]) * 1000) for item in spec["containers"])


def _node(name: str, cpu_milli: int) -> dict[str, Any]:
    labels = {"akash.network": "true"}
    amounts = {"cpu": f"{cpu_milli}m", "memory": "64Gi", "ephemeral-storage": "900G", "pods": "110"}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": amounts}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status
    }  # fmt: skip


def _key(obj: Mapping[str, Any]) -> Key:
    meta = obj["metadata"]
    return str(obj["apiVersion"]), str(obj["kind"]), str(meta.get("namespace", "")), str(meta["name"])
