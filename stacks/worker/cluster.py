"""The engine's own requests to the cluster besides Pulumi's: whether the namespace is terminating, and its deletion."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import httpx2

from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError, OperationRefused
from stacks.common.kubeconfig import read_kubeconfig
from stacks.kube import connect

__all__ = ["delete_objects", "refuse_terminating", "sweep_namespace"]

SECONDS = 10
KEPT_S = 60.0
"""The age after which a client is replaced: the files that its kubeconfig names may hold other credentials by then."""
LABEL = "akash.network/namespace"


def refuse_terminating(config: EngineConfig, namespace: str) -> None:
    """Raise `OperationRefused` while the namespace is terminating.

    An `up` into such a namespace succeeds, and later runs report "unchanged" while everything is gone (toolchain.md §3,
    killed runs 6).
    """
    found = _get(config, namespace)
    if found is not None and found["metadata"].get("deletionTimestamp"):
        raise OperationRefused(f"namespace {namespace} is still terminating; it can be used again when it is gone")


def sweep_namespace(config: EngineConfig, namespace: str) -> bool:
    """Delete the namespace that a lost or half-written state no longer holds; True if there was one to delete.

    Only a namespace with the label of a lease by that name is deleted.
    """
    found = _get(config, namespace)
    if found is None or found["metadata"].get("deletionTimestamp"):
        return False
    if (found["metadata"].get("labels") or {}).get(LABEL) != namespace:
        raise OperationRefused(f"namespace {namespace} is not a lease's: it lacks the label {LABEL}={namespace}")
    _delete(config, f"api/v1/namespaces/{namespace}", f"namespace {namespace}")
    return True


def delete_objects(config: EngineConfig, namespace: str, made: Iterable[tuple[str, str, str]]) -> list[str]:
    """Delete objects (apiVersion, kind, name) of a lease's namespace; returns the names that were there.

    Raises `OperationRefused` when the cluster does not do it.
    """
    gone = []
    for version, kind, name in made:
        base = f"apis/{version}" if "/" in version else f"api/{version}"
        if _delete(config, f"{base}/namespaces/{namespace}/{_plural(kind)}/{name}", f"{kind} {name}"):
            gone.append(f"{kind} {name}")
    return gone


def _plural(kind: str) -> str:
    """The plural of a kind that leases have. Kubernetes has no rule; these follow English."""
    name = kind.lower()
    return name[:-1] + "ies" if name.endswith("y") else name + ("es" if name.endswith("s") else "s")


def _get(config: EngineConfig, namespace: str) -> dict[str, Any] | None:
    answer = _ask(config, "GET", f"api/v1/namespaces/{namespace}")
    if answer.status_code == 404:
        return None
    if answer.is_error:
        raise OperationRefused(f"namespace {namespace} could not be read: {_reason(answer)}")
    found: dict[str, Any] = answer.json()
    return found


def _delete(config: EngineConfig, path: str, what: str) -> bool:
    """False when there is nothing to delete."""
    answer = _ask(config, "DELETE", path)
    if answer.is_error and answer.status_code != 404:
        raise OperationRefused(f"{what} could not be deleted: {_reason(answer)}")
    return not answer.is_error


def _ask(config: EngineConfig, method: str, path: str) -> httpx2.Response:
    """The answer to one request. Raises `OperationRefused` when there is none.

    The client is cached: reading a kubeconfig, setting up TLS and a handshake cost more than the request, 0.03 CPU s an
    operation.
    """
    try:
        answer = _client(config).request(method, path)
    except (EngineError, OSError, httpx2.HTTPError) as error:
        _forget()
        raise OperationRefused(f"the API server of {config.kubeconfig} did not answer: {error!r}") from None
    if answer.is_error and answer.status_code != 404:
        _forget()
    return answer


def _reason(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, LookupError, TypeError):
        return f"HTTP {answer.status_code}"


_Key = tuple[str, str, int]
_kept: dict[_Key, tuple[float, httpx2.Client]] = {}


def _client(config: EngineConfig) -> httpx2.Client:
    key = (str(config.kubeconfig_copy), config.context, config.kubeconfig_copy.stat().st_mtime_ns)
    made_at, client = _kept.get(key, (0.0, None))
    if client is None or time.monotonic() - made_at > KEPT_S:
        _forget()
        connection = connect(read_kubeconfig(config.kubeconfig_copy), config.context)
        client = httpx2.Client(**connection.arguments(), timeout=httpx2.Timeout(SECONDS))
        _kept[key] = (time.monotonic(), client)
    return client


def _forget() -> None:
    while _kept:
        _kept.popitem()[1][1].close()
