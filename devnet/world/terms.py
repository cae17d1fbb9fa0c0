"""The settings of a world that depend on its cluster; the defaults suit the devnet's control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from devnet.controlplane import DEFAULT_NODES, NodeSpec
from devnet.tools import Toolbox
from lease.ids import LeaseId

__all__ = ["IP_RANGE", "Cluster", "Terms"]

IP_RANGE = "203.0.113.10-203.0.113.29"
"""Documentation addresses (RFC 5737), which MetalLB assigns and nothing connects to."""


class Cluster(Protocol):
    """A Kubernetes cluster that a world uses."""

    @property
    def toolbox(self) -> Toolbox:
        """Pulumi; for the devnet's control plane also its programs."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, self-contained."""
        ...

    @property
    def api_server(self) -> str:
        """The URL of the API server."""
        ...

    def env(self) -> dict[str, str]:
        """The environment for child processes, with KUBECONFIG."""
        ...


def _ignore(leases: Sequence[LeaseId]) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`records`: the namespace of the durable records. `stack`: settings of the cluster stack. `provider`: settings of
    `lessor run`. `nodes`: the nodes whose attributes the provider registers. `patience`: seconds that workloads may
    take to become ready. `real`: pods run their images. `expect` is called with leases before they are made.
    """

    records: str = "lease"
    stack: Mapping[str, Any] = field(default_factory=dict)
    provider: Mapping[str, str] = field(
        default_factory=lambda: {
            "LESSOR_IP_RANGES": IP_RANGE,
            "LESSOR_STORAGE_CLASSES": "beta1=10Ti,beta2=10Ti,beta3=10Ti,default=10Ti",
        }
    )
    nodes: Sequence[NodeSpec] = DEFAULT_NODES
    patience: float = 60.0
    real: bool = False
    expect: Callable[[Sequence[LeaseId]], None] = _ignore
