"""Just enough of a Kubernetes client to fill an empty cluster; the standard library only, so that it starts at once."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any

from devnet.controlplane.certificates import Certificates

__all__ = ["Api", "ApiError", "insist", "wait_until"]

_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_NAMESPACED = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Service": ("/api/v1", "services"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
}
_RETRY_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
_YOUNG = (403, 404, 429, 500, 503)


class ApiError(Exception):
    """An answer other than 2xx."""

    def __init__(self, method: str, path: str, *, status: int, text: str) -> None:
        super().__init__(f"{method} {path}: {status} {text[:300]}")
        self.status = status


class Api:
    """One connection to one API server with the administrator's certificate. Not for two threads at once."""

    def __init__(self, port: int, pki: Certificates) -> None:
        context = ssl.create_default_context(cafile=str(pki.certificate("ca")))
        context.load_cert_chain(pki.certificate("admin"), pki.key("admin"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)

    def request(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Any:
        """The decoded answer (text where it is no JSON). ApiError, OSError or http.client.HTTPException."""
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, {"Content-Type": kind})
            response = self._connection.getresponse()
            text = response.read().decode(errors="replace")
        except BaseException:
            self._connection.close()  # the next request opens a new one
            raise
        if response.status // 100 != 2:
            raise ApiError(method, path, status=response.status, text=text)
        return json.loads(text) if response.headers.get("Content-Type", "").startswith("application/json") else text

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        self._connection.close()

    def ready(self) -> bool:
        """Whether the server says that all of it is up."""
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except (OSError, http.client.HTTPException, ApiError):
            return False

    def apply(self, manifest: dict[str, Any]) -> None:
        """Server-side apply of one object."""
        path = f"{_collection(manifest)}/{manifest['metadata']['name']}?fieldManager=devnet&force=true"
        self.request("PATCH", path, manifest, kind="application/apply-patch+yaml")

    def create_node(self, manifest: dict[str, Any]) -> None:
        """POST, which keeps the status (an apply would not); a node that is there already stays as it is."""
        try:
            self.request("POST", _PATHS["Node"], manifest)
        except ApiError as refused:
            if refused.status != http.client.CONFLICT:
                raise

    def nodes_are_ready(self, count: int) -> bool:
        """Whether `count` nodes can take pods: ready, and the not-ready taint is off."""
        items = self.request("GET", _PATHS["Node"])["items"]
        return sum(_schedulable(item) for item in items) >= count

    def definitions_are_served(self) -> bool:
        """Whether every custom resource can be used."""
        items = self.request("GET", _PATHS["CustomResourceDefinition"])["items"]
        return all(_is(item, "Established") for item in items)


def _collection(manifest: dict[str, Any]) -> str:
    if manifest["kind"] in _PATHS:
        return _PATHS[manifest["kind"]]
    group, plural = _NAMESPACED[manifest["kind"]]
    return f"{group}/namespaces/{manifest['metadata']['namespace']}/{plural}"


def _is(item: dict[str, Any], condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in item["status"].get("conditions") or [])


def _schedulable(node: dict[str, Any]) -> bool:
    return _is(node, "Ready") and not node["spec"].get("taints")


async def insist(act: Callable[[dict[str, Any]], None], manifest: dict[str, Any]) -> None:
    """Ask again for up to 10 s while a young server refuses; applying right after readiness may (toolchain.md §2)."""
    deadline = time.monotonic() + _RETRY_SECONDS
    while True:
        try:
            return await asyncio.to_thread(act, manifest)
        except ApiError as refused:
            if refused.status not in _YOUNG or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


async def wait_until(done: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Ask every 50 ms; TimeoutError names what did not come."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(done):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        await asyncio.sleep(_PAUSE_SECONDS)
