"""A small Kubernetes client that fills an empty cluster. It uses only the standard library, so that it starts fast."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any, TypeVar

from devnet.controlplane.certificates import Certificates

__all__ = ["RETRIED", "Api", "ApiError", "retry", "wait_until"]

_Argument = TypeVar("_Argument")
_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "IngressClass": "/apis/networking.k8s.io/v1/ingressclasses",
    "GatewayClass": "/apis/gateway.networking.k8s.io/v1/gatewayclasses",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
_NAMESPACED = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
}
_RETRY_S = 10.0
_PAUSE_S = 0.05
RETRIED = (403, 404, 429, 500, 503)
"""Status codes that a new API server may answer right after it reports readiness (toolchain.md §2)."""


class ApiError(Exception):
    """The API server answered with a status other than 2xx."""

    def __init__(self, method: str, path: str, *, status: int, text: str) -> None:
        super().__init__(f"{method} {path}: {status} {text[:300]}")
        self.status = status


class Api:
    """One connection to an API server, with the administrator's certificate. Not safe for concurrent threads."""

    def __init__(self, port: int, pki: Certificates) -> None:
        context = ssl.create_default_context(cafile=str(pki.certificate("ca")))
        context.load_cert_chain(pki.certificate("admin"), pki.key("admin"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)

    def request(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Any:
        """The decoded answer, or its text if not JSON. Raises `ApiError`, `OSError` or `HTTPException`."""
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
        """Whether the API server reports that it is ready."""
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except (OSError, http.client.HTTPException, ApiError):
            return False

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create or update one object by server-side apply."""
        path = f"{_collection(manifest)}/{manifest['metadata']['name']}?fieldManager=devnet&force=true"
        self.request("PATCH", path, manifest, kind="application/apply-patch+yaml")

    def delete(self, manifest: dict[str, Any]) -> None:
        """Delete an object by its kind, namespace and name; it need not exist."""
        try:
            self.request("DELETE", f"{_collection(manifest)}/{manifest['metadata']['name']}")
        except ApiError as refused:
            if refused.status != http.client.NOT_FOUND:
                raise

    def create_node(self, manifest: dict[str, Any]) -> None:
        """Create a node by POST, which keeps the status, unlike an apply. An existing node is not changed."""
        try:
            self.request("POST", _PATHS["Node"], manifest)
        except ApiError as refused:
            if refused.status != http.client.CONFLICT:
                raise

    def nodes_are_ready(self, count: int) -> bool:
        """Whether at least `count` nodes are ready and have no taint."""
        items = self.request("GET", _PATHS["Node"])["items"]
        return sum(_schedulable(item) for item in items) >= count

    def definitions_are_served(self) -> bool:
        """Whether the API server serves every custom resource."""
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


async def retry(act: Callable[[_Argument], None], argument: _Argument) -> None:
    """Call `act(argument)`; repeat it for up to 10 s while a new API server refuses it (`RETRIED`)."""
    deadline = time.monotonic() + _RETRY_S
    while True:
        try:
            return await asyncio.to_thread(act, argument)
        except ApiError as refused:
            if refused.status not in RETRIED or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


async def wait_until(done: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Call `done` every 50 ms until it returns true. Raises `TimeoutError` with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(done):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        await asyncio.sleep(_PAUSE_S)
