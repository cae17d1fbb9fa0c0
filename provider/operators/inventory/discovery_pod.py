"""The discovery pod of a node as a Kubernetes object (operators.md §2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

__all__ = ["LABELS", "DiscoveryOptions", "discovery_pod", "pod_name"]

_PREFIX = "operator-inventory-hardware-discovery-"
_MAX_NAME = 253
_HOST = "/host"
_NOBODY = 65534
LABELS = {
    "app.kubernetes.io/name": "inventory",
    "app.kubernetes.io/instance": "inventory-hardware-discovery",
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/part-of": "provider",
}


@dataclass(frozen=True, slots=True)
class DiscoveryOptions:
    """`privileged`: the pod sees the node's own /sys and /proc, so that disks, network interfaces and memory modules
    are found too. `port`: of the hardware server.
    """

    namespace: str
    image: str
    privileged: bool = False
    port: int = 8081
    account: str = "operator-inventory-hardware-discovery"
    command: tuple[str, ...] = ("lessor", "tools", "psutil", "serve")


def pod_name(node: str) -> str:
    """As the Go provider's; a node with a very long name has a hash in its place."""
    name = f"{_PREFIX}{node}"
    return name if len(name) <= _MAX_NAME else f"{_PREFIX}{sha256(node.encode()).hexdigest()}"


def discovery_pod(node: str, options: DiscoveryOptions) -> dict[str, Any]:
    """The pod. `nodeName` is set, so that no scheduler takes part and a full node has its pod too."""
    root = ("--root", _HOST) if options.privileged else ()
    container: dict[str, Any] = {
        "name": "psutil",
        "image": options.image,
        "command": [*options.command, f"--api-port={options.port}", *root],
        "env": [{"name": "PCIDB_ENABLE_NETWORK_FETCH", "value": "1"}],
        "ports": [{"name": "api", "containerPort": options.port, "protocol": "TCP"}],
        "securityContext": _security(privileged=options.privileged),
    }
    spec: dict[str, Any] = {
        "nodeName": node,
        "serviceAccountName": options.account,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    if options.privileged:
        container["volumeMounts"] = [{"name": "host", "mountPath": _HOST, "readOnly": True}]
        spec["volumes"] = [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}]
    metadata = {"name": pod_name(node), "namespace": options.namespace, "labels": dict(LABELS)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _security(*, privileged: bool) -> dict[str, Any]:
    if privileged:
        return {"privileged": True, "readOnlyRootFilesystem": True}
    return {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
