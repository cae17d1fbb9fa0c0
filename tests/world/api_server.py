"""An API server over HTTP whose objects are a `FakeCluster`'s: lists, watches that resume, and writes. It can be
stopped and started, can end its watches, and can forget the versions before a moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from provider.errors import ClusterError
from provider.protocols.cluster import Kind
from tests.world.cluster import FakeCluster, copied

__all__ = ["ApiServerInMemory", "RecordedCluster"]


class RecordedCluster(FakeCluster):
    """A `FakeCluster` that keeps its events, so that a watch can begin at an earlier version."""

    def __init__(self, *namespaces: str) -> None:
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.news = asyncio.Event()
        super().__init__(*namespaces)

    @property
    def version(self) -> int:
        return self._version

    def tell(self, type_: str, obj: dict[str, Any], *, before: dict[str, Any] | None = None) -> None:
        super().tell(type_, obj, before=before)
        self.events.append((int(obj["metadata"]["resourceVersion"]), type_, copied(obj)))
        self.news.set()
        self.news = asyncio.Event()


class ApiServerInMemory:
    """`requests` has the method and the path of every request. A kind that is not built in and has no object is 404."""

    def __init__(self, cluster: RecordedCluster, folder: Path) -> None:
        self.cluster = cluster
        self.requests: list[tuple[str, str]] = []
        self.oldest = 0
        self.raw: list[bytes] = []
        """Lines that the next event of any watch has before it."""
        self._watches: set[asyncio.Event] = set()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.kubeconfig = folder / "kubeconfig"

    async def start(self) -> None:
        """Listen, on the same port as before."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]
        self._write_kubeconfig()

    async def stop(self) -> None:
        """Every connection breaks, and none is taken."""
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def end_watches(self) -> None:
        for ended in self._watches:
            ended.set()

    def expire(self) -> None:
        """A watch from any version so far is refused as too old, and the open ones end."""
        self.oldest = self.cluster.version + 1
        self.end_watches()

    def _write_kubeconfig(self) -> None:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        if not self.kubeconfig.exists():
            self.kubeconfig.write_text(json.dumps(config))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        kind, namespace, rest = _place(request.match_info["path"])
        watch = "?watch" if request.query.get("watch") else ""
        self.requests.append((request.method, request.match_info["path"] + watch))
        try:
            if request.method == "GET" and not rest:
                return await self._list_or_watch(request, kind, namespace)
            return web.json_response(await self._one(request, kind, namespace, rest))
        except ClusterError as error:
            return _status(error.status or 500, str(error))

    async def _one(
        self, request: web.Request, kind: Kind, namespace: str | None, rest: tuple[str, ...]
    ) -> dict[str, Any]:
        name = rest[0]
        if request.method == "PATCH":
            body = json.loads(await request.read())
            if "apply" in request.headers["Content-Type"]:
                return self.cluster.put(body, status=rest[1:] == ("status",))
            return await self.cluster.patch(kind, name, body, namespace=namespace)
        if request.method == "DELETE":
            gone = await self.cluster.delete(kind, name, namespace=namespace)
        else:
            found = self.cluster.find(kind, name, namespace)
            if found is not None:
                return found
            gone = False
        if not gone:
            raise ClusterError(self.cluster.address, f"{name} not found", status=404)
        return {"kind": "Status", "status": "Success"}

    async def _list_or_watch(self, request: web.Request, kind: Kind, namespace: str | None) -> web.StreamResponse:
        labels = dict(term.split("=") for term in request.query.get("labelSelector", "").split(",") if "=" in term)
        if not self._serves(kind):
            raise ClusterError(self.cluster.address, "the server could not find the requested resource", status=404)
        if request.query.get("watch"):
            return await self._watch(request, kind, namespace, labels)
        items = await self.cluster.list(kind, namespace=namespace, labels=labels)
        first, size = int(request.query.get("continue") or 0), int(request.query.get("limit") or len(items) or 1)
        meta = {"resourceVersion": str(self.cluster.version)}
        if first + size < len(items):
            meta["continue"] = str(first + size)
        return web.json_response({"metadata": meta, "items": items[first : first + size]})

    def _serves(self, kind: Kind) -> bool:
        """Whether the kind is built in, or there is an object of it."""
        group = kind.api_version.partition("/")[0]
        built_in = "." not in group or group.endswith(".k8s.io")
        return built_in or any(key[:2] == (kind.api_version, kind.kind) for key in self.cluster.objects)

    async def _watch(
        self, request: web.Request, kind: Kind, namespace: str | None, labels: Mapping[str, str]
    ) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or 0)
        if version < self.oldest:
            raise ClusterError(self.cluster.address, "too old resource version", status=410)
        response = web.StreamResponse()
        await response.prepare(request)
        ended = asyncio.Event()
        self._watches.add(ended)
        try:
            while not ended.is_set():
                news = self.cluster.news
                for at, type_, obj in self.cluster.events:
                    if at > version and _fits(obj, kind, namespace, labels):
                        for line in self.raw:
                            await response.write(line + b"\n")
                        self.raw.clear()
                        await response.write(json.dumps({"type": type_, "object": obj}).encode() + b"\n")
                version = self.cluster.version
                waits = [asyncio.ensure_future(one.wait()) for one in (news, ended)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()
        finally:
            self._watches.discard(ended)
        return response


def _place(path: str) -> tuple[Kind, str | None, tuple[str, ...]]:
    """The kind, the namespace, and the name with its subresource."""
    parts = path.strip("/").split("/")
    version, parts = ("/".join(parts[1:3]), parts[3:]) if parts[0] == "apis" else (parts[1], parts[2:])
    namespace = None
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return Kind(version, _NAMES.get(parts[0], ""), parts[0]), namespace, tuple(parts[1:])


_NAMES = {
    "namespaces": "Namespace", "nodes": "Node", "pods": "Pod", "services": "Service", "secrets": "Secret",
    "persistentvolumes": "PersistentVolume", "persistentvolumeclaims": "PersistentVolumeClaim",
    "storageclasses": "StorageClass", "cephclusters": "CephCluster", "settings": "Setting",
    "providerhosts": "ProviderHost", "providerleasedips": "ProviderLeasedIP", "manifests": "Manifest",
    "ingresses": "Ingress", "httproutes": "HTTPRoute", "ipaddresspools": "IPAddressPool",
    "l2advertisements": "L2Advertisement", "configmaps": "ConfigMap", "deployments": "Deployment",
    "statefulsets": "StatefulSet", "events": "Event",
    "leases": "Lease",
}  # fmt: skip


def _fits(obj: Mapping[str, Any], kind: Kind, namespace: str | None, labels: Mapping[str, str]) -> bool:
    meta = obj["metadata"]
    of_kind = (obj["apiVersion"], obj["kind"]) == (kind.api_version, kind.kind)
    have = meta.get("labels") or {}
    return (
        of_kind
        and namespace in (None, meta.get("namespace"))
        and all(have.get(key) == value for key, value in labels.items())
    )


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)
