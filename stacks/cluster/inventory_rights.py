"""The rights and the ports of the inventory operator and of its discovery pods (operators.md §6, §7), as plain data.

A right is here when the operator uses it: a test replays what the operator asks and compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

__all__ = [
    "CLUSTER_RULES",
    "DISCOVERY_ACCOUNT",
    "DISCOVERY_LABELS",
    "DISCOVERY_POD",
    "DISCOVERY_PORT",
    "INVENTORY_CONTAINER",
    "INVENTORY_PORTS",
    "INVENTORY_PROBES",
    "MARKET_RESOURCE_NAMES",
    "MARKET_RULES",
    "NAMESPACE_RULES",
    "ROOK_RULES",
    "Rule",
]

Rule: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""API group, resources, verbs."""
_READ = ("get", "list", "watch")

CLUSTER_RULES: tuple[Rule, ...] = (
    ("", ("nodes",), ("list", "watch", "patch")),
    ("", ("pods", "persistentvolumes"), ("list", "watch")),
    ("storage.k8s.io", ("storageclasses",), ("list", "watch")),
    ("ceph.rook.io", ("cephclusters",), ("list", "watch")),
    ("longhorn.io", ("nodes", "settings"), ("list", "watch")),
)
"""A ClusterRole: `patch` of a node writes its managed labels and one annotation."""
NAMESPACE_RULES: tuple[Rule, ...] = (
    ("", ("pods",), (*_READ, "create", "patch", "delete")),
    ("", ("pods/proxy",), ("get",)),
)
"""A Role in the operator's own namespace: the discovery pods, and its own pod."""
ROOK_RULES: tuple[Rule, ...] = (
    ("", ("pods",), ("list",)),
    ("", ("pods/exec",), ("get", "create")),
)
"""A Role in the namespace of Rook-Ceph, where there is one: `ceph df` in the toolbox pod."""
MARKET_RULES: tuple[Rule, ...] = (("", ("services/proxy",), ("get",)),)
MARKET_RESOURCE_NAMES = ("operator-inventory:rest",)
"""A Role of the provider's own account in the operator's namespace, for these names only: the market reads the sizes of
storage classes through the API server's proxy, wherever the provider runs.
"""
DISCOVERY_ACCOUNT = "operator-inventory-hardware-discovery"
"""The account of the discovery pods. It needs no right, and its token is not mounted."""
DISCOVERY_POD = "operator-inventory-hardware-discovery-"
"""What the names of the discovery pods begin with."""
DISCOVERY_PORT = 8081
DISCOVERY_LABELS: Mapping[str, str] = {
    "app.kubernetes.io/name": "inventory",
    "app.kubernetes.io/instance": "inventory-hardware-discovery",
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/part-of": "provider",
}
INVENTORY_CONTAINER = "operator-inventory"
INVENTORY_PORTS: Mapping[str, int] = {"rest": 8080, "grpc": 8081}
"""Of the container and of the Service `operator-inventory`, by name."""
INVENTORY_PROBES: Mapping[str, str] = {"liveness": "/metrics/health", "readiness": "/metrics/ready"}
"""Paths on the port `rest`. Liveness depends on nothing; ready is the operator when it has read the cluster once."""
