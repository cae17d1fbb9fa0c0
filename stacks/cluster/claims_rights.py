"""The rights and the ports of the operators for hostnames and leased addresses (operators.md §6, §7), as plain data.

A right is here when the operator uses it: a test replays what the operators ask and compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

__all__ = [
    "HOSTNAME_CONTAINER",
    "HOSTNAME_RULES",
    "IP_CLUSTER_RULES",
    "IP_CONTAINER",
    "IP_METALLB_RULES",
    "IP_RULES",
    "PORTS",
    "PROBES",
    "Rule",
]

Rule: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""API group, resources, verbs."""

HOSTNAME_RULES: tuple[Rule, ...] = (
    ("akash.network", ("manifests", "providerhosts"), ("list", "watch")),
    ("akash.network", ("providerhosts/status",), ("patch",)),
)
"""A Role in the namespace of the records."""
IP_RULES: tuple[Rule, ...] = (("akash.network", ("providerleasedips",), ("list", "watch")),)
"""A Role in the namespace of the records."""
IP_METALLB_RULES: tuple[Rule, ...] = (("metallb.io", ("ipaddresspools",), ("list",)),)
"""A Role in MetalLB's namespace."""
IP_CLUSTER_RULES: tuple[Rule, ...] = (("", ("services",), ("list",)),)
"""A ClusterRole: the load balancers in the namespace of a lease."""
HOSTNAME_CONTAINER, IP_CONTAINER = "operator-hostname", "operator-ip"
"""Names of the containers and of their Services."""
PORTS: Mapping[str, int] = {"rest": 8080, "grpc": 8081}
PROBES: Mapping[str, str] = {"readiness": "/health"}
"""Paths on the port `rest`. Every path of the IP operator answers 503 until it knows every claim, so that liveness is
the open port.
"""
