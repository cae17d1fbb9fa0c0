"""The fake cluster behind a network, with controllers: namespaces go slowly, pods are scheduled, become ready or crash.

Watches keep the contract of `Cluster.watch`: they may be late, repeat themselves and break, and after a break they list
again and say what went. What is never told is never assumed.
"""

from __future__ import annotations

import asyncio
import marshal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from provider.errors import ClusterError, Conflict
from provider.protocols.cluster import Kind, WatchEvent
from provider.units import parse_quantity
from tests.world.cluster import FakeCluster, Key, copied, unreachable
from tests.world.engine import object_key
from tests.world.faults import Faults
from tests.world.storage import Storage

__all__ = ["GPUS", "WORKLOADS", "Remover", "SimulatedCluster"]

Remover = Callable[[str, Key], None]
Writer = Callable[[Mapping[str, Any] | None, Mapping[str, Any]], None]
WORKLOADS = ("Deployment", "StatefulSet")
GPUS = {"n0": 2}
"""Cards (nvidia a100) by node."""


class SimulatedCluster(FakeCluster):
    """`actor` is whoever acts now ("us" unless a controller or a human says otherwise); `removed` hears of it."""

    def __init__(self, faults: Faults, *, nodes: int, cpu_milli: int) -> None:
        self.written: Writer = lambda before, obj: None
        self._bytes: dict[str, bytes] = {}
        super().__init__()
        self._faults = faults
        self.actor = "us"
        self.removed: Remover = lambda actor, key: None
        self.bound: Callable[[str], None] = lambda volume: None
        self.left: set[str] = set()
        """Namespaces that a planted defect left."""
        self._crashed = False
        self._storage = Storage(self)
        self._made: dict[Key, tuple[Key, Any]] = {}
        self._goes_at: dict[str, float] = {}
        self._cpu_milli = cpu_milli
        for number in range(nodes):
            self.put(_node(f"n{number}", cpu_milli))

    def put(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        meta = obj["metadata"]
        self.written(self.objects.get((obj["apiVersion"], obj["kind"], meta.get("namespace") or "", meta["name"])), obj)
        return super().put(obj, status=status)

    def handed_out(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A copy. Nothing here changes an object without a new resourceVersion, so the bytes of one are made once."""
        version = obj["metadata"]["resourceVersion"]
        if (stored := self._bytes.get(version)) is None:
            stored = self._bytes[version] = marshal.dumps(obj, 2)
        copy: dict[str, Any] = marshal.loads(stored)
        return copy

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
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]:
        await self._ask("list", "")
        return await super().list(kind, namespace=namespace, labels=labels)

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        await self._ask("write", obj["metadata"]["name"])
        return await super().apply(obj, status=status, dry_run=dry_run)

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        await self._ask("write", name)
        return await super().patch(kind, name, changes, namespace=namespace)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        await self._ask("write", name)
        return await super().delete(kind, name, namespace=namespace, resource_version=resource_version)

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        """Segments: list, follow until the connection breaks, wait, list again."""
        told = {object_key(obj): dict(obj) for obj in known}
        while True:
            async for event in self._segment(kind, namespace, labels, told, current=current):
                yield event
                if self._faults.hit("repeated events"):
                    yield event
            current(False)
            await asyncio.sleep(self._faults.random.uniform(0.5, 5.0))

    async def _segment(
        self,
        kind: Kind,
        namespace: str | None,
        labels: Mapping[str, str | None] | None,
        known: dict[Key, dict[str, Any]],
        *,
        current: Callable[[bool], None],
    ) -> AsyncIterator[WatchEvent]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        entry = (kind, namespace, dict(labels or {}), queue)
        try:
            found = await self.list(kind, namespace=namespace, labels=labels)
        except ClusterError:
            return
        self.watchers.append(entry)
        try:
            now = {object_key(obj): obj for obj in found}
            for key in [key for key in known if key not in now]:
                yield WatchEvent("DELETED", known.pop(key))
            for key, obj in now.items():
                known[key] = obj
                yield WatchEvent("ADDED", obj)
            current(True)
            async for event in self._live(queue):
                key = object_key(event.object)
                known.pop(key, None)
                if event.type != "DELETED":
                    known[key] = event.object
                yield event
        finally:
            self.watchers.remove(entry)

    async def _live(self, queue: asyncio.Queue[WatchEvent]) -> AsyncIterator[WatchEvent]:
        while True:
            event = await queue.get()
            if self._faults.on("cluster away") or self._faults.hit("lost events", 0.3):
                return
            await self._faults.latency("late events")
            yield event

    async def controllers(self) -> None:
        """For ever: what the controllers of a cluster do, a little every second; nothing while nothing moves."""
        seen = -1
        while True:
            await asyncio.sleep(self._faults.random.uniform(0.5, 1.5))
            if self._goes_at or self.writes != seen or self._faults.on("crash loops") or self._crashed:
                self._control()
            seen = self.writes

    def _control(self) -> None:
        self.actor = "controller"
        try:
            self._finish_namespaces()
            self._run_workloads()
            if any(key[1] in ("PersistentVolume", "PersistentVolumeClaim") for key in self.objects):
                self._store()
        finally:
            self.actor = "us"

    def _store(self) -> None:
        self._storage.settle()
        for volume in self._storage.volumes():
            self.bound(volume["metadata"]["name"])

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
            self.tell("DELETED", self.objects.pop(key))

    def _run_workloads(self) -> None:
        alive = {key for key in self.objects if key[1] in WORKLOADS}
        for key in [key for key in self.objects if key[1] == "Pod" and not self._wanted(key, alive)]:
            self.remove(key)
        self._crashed = False
        for key in sorted(alive):
            if not self.terminating(key[2]):
                self._claim(key, self.objects[key])
                self._pod(key, self.objects[key])
            self._tell_ready(self.objects[key])
        for key in [key for key in self.objects if key[1] == "Service" and not self.terminating(key[2])]:
            self.give_address(self.objects[key])

    def current(self, pod: Key) -> bool:
        """Whether it was made from what its workload says now, and its namespace stays; else a controller is about to
        replace it.
        """
        return pod in self._made and self._wanted(pod, set(self.objects)) and not self.terminating(pod[2])

    def _wanted(self, pod: Key, alive: set[Key]) -> bool:
        """A pod lives as long as its workload has the template that it was made from."""
        owner, template = self._made.get(pod, (pod, None))
        return owner in alive and self.objects[owner]["spec"]["template"] == template

    def _tell_ready(self, obj: dict[str, Any]) -> None:
        crashed = self._faults.hit("crash loops", 0.2)
        self._crashed |= crashed
        count = 0 if crashed else obj["spec"].get("replicas", 1)
        status = {"availableReplicas": count, "readyReplicas": count, "observedGeneration": 1}
        if obj.get("status") != status:
            self.put({**obj, "status": status}, status=True)

    def _claim(self, key: Key, workload: Mapping[str, Any]) -> None:
        """A StatefulSet's claims are made by its controller and outlive it."""
        for template in workload["spec"].get("volumeClaimTemplates") or ():
            name = f"{template['metadata']['name']}-{key[3]}-0"
            if ("v1", "PersistentVolumeClaim", key[2], name) not in self.objects:
                labels = {"akash.network": "true", "akash.network/manifest-service": key[3]}
                meta = {"name": name, "namespace": key[2], "labels": labels}
                spec = copied(template["spec"])
                self.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})

    def _pod(self, key: Key, workload: Mapping[str, Any]) -> None:
        """One pod of a workload, on the emptiest node if it has the room: as the scheduler does, not as we promised."""
        pod, template = ("v1", "Pod", key[2], f"{key[3]}-0"), workload["spec"]["template"]
        if pod in self.objects or not workload["spec"].get("replicas", 1):
            return
        spec = copied(template["spec"])
        node = self._node_for(spec)
        if not node:
            return
        labels = {"akash.network": "true", "akash.network/manifest-service": key[3]}
        meta = {"name": pod[3], "namespace": key[2], "labels": labels}
        spec["nodeName"] = node
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}})
        self._made[pod] = key, copied(template)

    def _node_for(self, spec: Mapping[str, Any]) -> str:
        """The emptiest that holds it, empty when none does."""
        cpu, cards = _asked(spec)
        free = {name: [self._cpu_milli, GPUS.get(name, 0)] for _, kind, _, name in self.objects if kind == "Node"}
        for key in [key for key in self.objects if key[1] == "Pod"]:
            used = _asked(self.objects[key]["spec"])
            free[self.objects[key]["spec"]["nodeName"]][0] -= used[0]
            free[self.objects[key]["spec"]["nodeName"]][1] -= used[1]
        fits = [name for name, (milli, gpus) in free.items() if milli >= cpu and gpus >= cards]
        return max(fits, key=lambda name: free[name][0], default="")


def _asked(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Millicores and cards of a pod."""
    wants = [item["resources"]["requests"] for item in spec["containers"]]
    cpu = sum(int(parse_quantity(want["cpu"]) * 1000) for want in wants)
    return cpu, sum(int(want.get("nvidia.com/gpu", 0)) for want in wants)


def _node(name: str, cpu_milli: int) -> dict[str, Any]:
    labels = {"akash.network": "true", "akash.network/capabilities.storage.class.beta2": "1"}
    if name in GPUS:
        labels["akash.network/capabilities.gpu.vendor.nvidia.model.a100"] = str(GPUS[name])
    amounts = {"cpu": f"{cpu_milli}m", "memory": "64Gi", "ephemeral-storage": "900G", "pods": "110"}
    amounts |= {"nvidia.com/gpu": str(GPUS[name])} if name in GPUS else {}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": amounts}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status
    }  # fmt: skip
