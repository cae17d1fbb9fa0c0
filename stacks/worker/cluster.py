"""The engine's own requests to the cluster besides Pulumi's: whether the namespace is terminating, and its deletion."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx2
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Namespace

from stacks.common.config import EngineConfig
from stacks.common.errors import OperationRefused

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
    if found is not None and found.metadata and found.metadata.deletionTimestamp:
        raise OperationRefused(f"namespace {namespace} is still terminating; it can be used again when it is gone")


def sweep_namespace(config: EngineConfig, namespace: str) -> bool:
    """Delete the namespace that a lost or half-written state no longer holds; True if there was one to delete.

    Only a namespace with the label of a lease by that name is deleted.
    """
    found = _get(config, namespace)
    if found is None or not found.metadata or found.metadata.deletionTimestamp:
        return False
    if (found.metadata.labels or {}).get(LABEL) != namespace:
        raise OperationRefused(f"namespace {namespace} is not a lease's: it lacks the label {LABEL}={namespace}")
    try:
        with _asking(config) as client:
            client.delete(Namespace, namespace)
    except ApiError as error:
        if error.status.code != 404:
            raise OperationRefused(f"namespace {namespace} could not be deleted: {error}") from None
    return True


def delete_objects(config: EngineConfig, namespace: str, made: Iterable[tuple[str, str, str]]) -> list[str]:
    """Delete objects (apiVersion, kind, name) of a lease's namespace; returns the names that were there.

    Raises `OperationRefused` when the cluster does not do it.
    """
    gone = []
    for version, kind, name in made:
        group, _, short = version.rpartition("/")
        resource = create_namespaced_resource(group, short, kind, _plural(kind))
        try:
            with _asking(config) as client:
                client.delete(resource, name, namespace=namespace)
            gone.append(f"{kind} {name}")
        except ApiError as error:
            if error.status.code != 404:
                raise OperationRefused(f"{kind} {name} could not be deleted: {error}") from None
    return gone


def _plural(kind: str) -> str:
    """The plural of a kind that leases have. Kubernetes has no rule; these follow English."""
    name = kind.lower()
    return name[:-1] + "ies" if name.endswith("y") else name + ("es" if name.endswith("s") else "s")


def _get(config: EngineConfig, namespace: str) -> Namespace | None:
    try:
        with _asking(config) as client:
            return client.get(Namespace, namespace)
    except ApiError as error:
        if error.status.code == 404:
            return None
        raise OperationRefused(f"namespace {namespace} could not be read: {error}") from None


@contextmanager
def _asking(config: EngineConfig) -> Iterator[Client]:
    """A cached client. Raises `OperationRefused` when there is no answer. Reading a kubeconfig, setting up TLS and a
    handshake cost more than the request: 0.03 CPU s an operation.
    """
    try:
        yield _client(config)
    except ApiError as error:
        if error.status.code != 404:
            _forget()
        raise
    except (ConfigError, OSError, httpx2.HTTPError) as error:
        _forget()
        raise OperationRefused(f"the API server of {config.kubeconfig} did not answer: {error!r}") from None


_Key = tuple[str, str, int]
_kept: dict[_Key, tuple[float, Client]] = {}


def _client(config: EngineConfig) -> Client:
    key = (str(config.kubeconfig_copy), config.context, config.kubeconfig_copy.stat().st_mtime_ns)
    made_at, client = _kept.get(key, (0.0, None))
    if client is None or time.monotonic() - made_at > KEPT_S:
        _forget()
        chosen = KubeConfig.from_file(config.kubeconfig_copy).get(config.context or None)
        client = Client(chosen, timeout=httpx2.Timeout(SECONDS))
        _kept[key] = (time.monotonic(), client)
    return client


def _forget() -> None:
    while _kept:
        _kept.popitem()[1][1].close()
