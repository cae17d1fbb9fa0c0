"""An API server in memory: enough of the real one's behaviour for what the provider does with it.

Kept: resourceVersions (an apply that changes nothing keeps the version), preconditions, status subresource, namespaces
that terminate slowly and refuse new objects meanwhile, watches. Not kept: validation, defaults, field managers.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import marshal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from lease.spec import ServiceSpec
from provider.errors import ClusterError, Conflict
from provider.protocols.cluster import DEPLOYMENT, IP_ADDRESS_POOL, NAMESPACE, STATEFUL_SET, Kind, WatchEvent

__all__ = ["FakeCluster", "Key", "copied", "unreachable"]

Key = tuple[str, str, str, str]
_T = TypeVar("_T")
Hook = Callable[[str, str, str], None]


class FakeCluster:
    """`protocols.Cluster`. `before` is called with (operation, kind, name) before each call and may raise.

    `settle()` plays the controllers: terminating namespaces go, workloads become ready.
    """

    address = "https://fake"

    def __init__(self, *namespaces: str) -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.before: Hook = lambda operation, kind, name: None
        self.stuck: dict[str, str] = {}
        self.admission: Callable[[Mapping[str, Any]], str] = lambda obj: ""
        """Why `apply` refuses an object, empty when it takes it. Engines do not ask it."""
        self.dry_runs: list[tuple[str, str]] = []
        self.metallb = True
        """Whether `settle` gives Services the addresses of their pools."""
        self.writes = 0
        self.applied: list[dict[str, Any]] = []
        """What `apply` was given."""
        self.taken: list[tuple[str, str]] = []
        """The objects whose fields were taken over."""
        self._version = 100
        self.watchers: list[tuple[Kind, str | None, dict[str, str | None], asyncio.Queue[WatchEvent]]] = []
        for name in namespaces or ("lease", "metallb-system"):
            self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        self.before("get", kind.kind, name)
        obj = self.objects.get(self._key(kind.api_version, kind.kind, namespace, name))
        return None if obj is None else self.handed_out(obj)

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> builtins.list[dict[str, Any]]:
        self.before("list", kind.kind, "")
        return [self.handed_out(obj) for obj in self._selected(kind, namespace, labels or {})]

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        queue: asyncio.Queue[WatchEvent] = asyncio.Queue()
        entry = (kind, namespace, dict(labels or {}), queue)
        found = await self.list(kind, namespace=namespace, labels=labels)
        self.watchers.append(entry)
        try:
            there = {obj["metadata"]["uid"] for obj in found}
            for obj in [obj for obj in known if obj["metadata"]["uid"] not in there]:
                yield WatchEvent("DELETED", dict(obj))
            for obj in found:
                yield WatchEvent("ADDED", obj)
            current(True)
            while True:
                yield await queue.get()
        finally:
            self.watchers.remove(entry)

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        self.before("apply", obj["kind"], obj["metadata"]["name"])
        if refusal := self.admission(obj):
            raise ClusterError(self.address, f"{refusal} (HTTP 422)", status=422)
        if dry_run:
            self.dry_runs.append((obj["kind"], obj["metadata"]["name"]))
            return copied(dict(obj))
        self.applied.append(dict(obj))
        return self.put(obj, status=status)

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        self.before("patch", kind.kind, name)
        stored = self.objects.get(self._key(kind.api_version, kind.kind, namespace, name))
        if stored is None:
            raise ClusterError(self.address, f"{name} not found", status=404)
        return self.put(_merged_patch(copied(stored), changes))

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> bool:
        self.before("take_fields", kind.kind, name)
        self.taken.append((kind.kind, name))
        return True

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        self.before("delete", kind.kind, name)
        key = self._key(kind.api_version, kind.kind, namespace, name)
        obj = self.objects.get(key)
        if obj is None:
            return False
        if resource_version not in (None, obj["metadata"]["resourceVersion"]):
            raise Conflict(self.address, f"{name} has changed", status=409)
        self.remove(key)
        return True

    def put(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        """Store without hooks: what the engine or a human does."""
        meta = obj["metadata"]
        key = self._key(obj["apiVersion"], obj["kind"], meta.get("namespace"), meta["name"])
        stored = self.objects.get(key)
        self._refuse(key, obj, stored, status=status)
        wanted = self._merged(key, obj, stored, status=status)
        if stored is not None and _content(stored) == _content(wanted):
            return copied(stored)
        self.writes += 1
        wanted["metadata"]["resourceVersion"] = self._next_version()
        self.objects[key] = wanted
        self.tell("ADDED" if stored is None else "MODIFIED", wanted, before=stored)
        return copied(wanted)

    def remove(self, key: Key) -> None:
        """Delete as the API server does: a namespace only begins to terminate."""
        obj = self.objects[key]
        self.writes += 1
        if obj["kind"] == "Namespace":
            if not self.terminating(key[3]):
                obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                obj["status"] = {"phase": "Terminating", "conditions": self._conditions(key[3])}
                obj["metadata"]["resourceVersion"] = self._next_version()
                self.tell("MODIFIED", obj)
            return
        del self.objects[key]
        obj["metadata"]["resourceVersion"] = self._next_version()
        self.tell("DELETED", obj)

    def handed_out(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A copy for a reader, who may do with it what it likes."""
        return copied(obj)

    def terminating(self, namespace: str) -> bool:
        obj = self.objects.get(self._key("v1", "Namespace", None, namespace))
        return obj is not None and "deletionTimestamp" in obj["metadata"]

    def settle(self, *, ready: bool = True) -> None:
        """Let terminating namespaces go (unless `stuck`), and every workload's pods run."""
        for key in [key for key in self.objects if key[1] == "Namespace" and self.terminating(key[3])]:
            if key[3] in self.stuck:
                continue
            for inner in [inner for inner in self.objects if inner[2] == key[3]]:
                self.remove(inner)
            self.tell("DELETED", self.objects.pop(key))
        for key, obj in list(self.objects.items()):
            if ready and key[1] in ("Deployment", "StatefulSet"):
                self.make_ready(obj)
            elif key[1] == "Service":
                self.give_address(obj)

    def give_address(self, service: dict[str, Any]) -> None:
        """What MetalLB does: the Service gets the address of the pool that it names, or the one in it that it names."""
        annotations = service["metadata"].get("annotations") or {}
        pool = annotations.get("metallb.io/address-pool")
        found = self.find(IP_ADDRESS_POOL, str(pool), "metallb-system")
        if found is not None and self.metallb:
            address = annotations.get("metallb.io/loadBalancerIPs") or found["spec"]["addresses"][0].partition("/")[0]
            self.put({**service, "status": {"loadBalancer": {"ingress": [{"ip": address}]}}}, status=True)

    def make_ready(self, obj: dict[str, Any], replicas: int | None = None) -> None:
        count = obj["spec"].get("replicas", 1) if replicas is None else replicas
        status = {"availableReplicas": count, "readyReplicas": count, "observedGeneration": 1}
        self.put({**obj, "status": status}, status=True)

    def named(self, kind: Kind, namespace: str | None = None) -> builtins.list[str]:
        return sorted(obj["metadata"]["name"] for obj in self._selected(kind, namespace, {}))

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        return self.objects.get(self._key(kind.api_version, kind.kind, namespace, name))

    def workload(self, namespace: str, service: ServiceSpec) -> dict[str, Any] | None:
        return self.find(STATEFUL_SET if service.persistent else DEPLOYMENT, service.name, namespace)

    def _refuse(self, key: Key, obj: Mapping[str, Any], stored: dict[str, Any] | None, *, status: bool) -> None:
        wanted = obj["metadata"].get("resourceVersion")
        if wanted and not status and stored is not None and wanted != stored["metadata"]["resourceVersion"]:
            raise Conflict(self.address, f"{key[3]} has changed", status=409)
        if status and stored is None:
            raise ClusterError(self.address, f"{key[3]} not found", status=404)
        if key[2] and self.find(NAMESPACE, key[2]) is None:
            raise ClusterError(self.address, f'namespaces "{key[2]}" not found', status=404)
        if key[2] and stored is None and self.terminating(key[2]):
            raise ClusterError(self.address, f"namespace {key[2]} is being terminated", status=403)

    def _merged(
        self, key: Key, obj: Mapping[str, Any], stored: dict[str, Any] | None, *, status: bool
    ) -> dict[str, Any]:
        if status and stored is not None:
            return {**copied(stored), "status": json.loads(json.dumps(obj["status"]))}
        wanted: dict[str, Any] = json.loads(json.dumps(obj))
        kept = (stored or {}).get("metadata") or {"uid": f"uid-{self._version}-{key[3]}", "generation": 1}
        wanted["metadata"] |= {name: kept[name] for name in ("uid", "generation", "deletionTimestamp") if name in kept}
        if stored is not None and "status" in stored:
            wanted["status"] = copied(stored["status"])
        return wanted

    def _selected(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> Iterator[dict[str, Any]]:
        for key in sorted(key for key in self.objects if key[1] == kind.kind and key[0] == kind.api_version):
            if _fits(self.objects[key], namespace, labels):
                yield self.objects[key]

    def tell(self, type_: str, obj: dict[str, Any], *, before: dict[str, Any] | None = None) -> None:
        """Everyone who watches it hears of it; who watches by a label it has lost hears that it went."""
        for kind, namespace, labels, queue in self.watchers:
            if (kind.api_version, kind.kind) != (obj["apiVersion"], obj["kind"]):
                continue
            if _fits(obj, namespace, labels):
                queue.put_nowait(WatchEvent(type_, copied(obj)))
            elif before is not None and _fits(before, namespace, labels):
                queue.put_nowait(WatchEvent("DELETED", copied(obj)))

    def _conditions(self, namespace: str) -> builtins.list[dict[str, str]]:
        why = self.stuck.get(namespace)
        return [{"type": "NamespaceFinalizersRemaining", "status": "True", "message": why}] if why else []

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    @staticmethod
    def _key(api_version: str, kind: str, namespace: str | None, name: str) -> Key:
        return api_version, kind, namespace or "", name


def copied(value: _T) -> _T:
    """A deep copy of what was read from JSON, many times faster than `copy.deepcopy`."""
    copy: _T = marshal.loads(marshal.dumps(value, 2))  # type: ignore[arg-type]
    return copy


def _merged_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged_patch(merged.get(key), value)
    return merged


def unreachable() -> ClusterError:
    """What every call says while the API server is away."""
    return ClusterError(FakeCluster.address, "connection refused")


def _fits(obj: Mapping[str, Any], namespace: str | None, labels: Mapping[str, str | None]) -> bool:
    meta = obj["metadata"]
    have = meta.get("labels") or {}
    return namespace in (None, meta.get("namespace")) and all(have.get(key) == value for key, value in labels.items())


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}
