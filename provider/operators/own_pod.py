"""The pod in which an operator itself runs: the ports and the image of its container (operators.md §1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provider.protocols import Cluster
from provider.protocols.cluster import POD

__all__ = ["container_image", "container_port", "own_container"]


async def own_container(cluster: Cluster, name: str, *, pod: str, namespace: str) -> Mapping[str, Any]:
    """The container `name` of the pod; empty without such a pod or container. Raises `ClusterError`."""
    found = await cluster.get(POD, pod, namespace=namespace) if pod else None
    containers = ((found or {}).get("spec") or {}).get("containers") or ()
    return next((one for one in containers if one.get("name") == name), {})


def container_port(container: Mapping[str, Any], name: str, default: int) -> int:
    """The container's port of that name, else `default`."""
    ports = container.get("ports") or ()
    return next((int(one["containerPort"]) for one in ports if one.get("name") == name), default)


def container_image(container: Mapping[str, Any], default: str) -> str:
    return str(container.get("image") or default)
