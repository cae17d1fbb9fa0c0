"""What a world depends on its cluster for: the devnet's own control plane has the defaults."""

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
"""Documentation addresses (RFC 5737): MetalLB hands them out, nobody dials them."""


class Cluster(Protocol):
    """A Kubernetes cluster that this process may use."""

    @property
    def toolbox(self) -> Toolbox:
        """Pulumi, and where the cluster is the devnet's own the control plane's programs."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, self-contained."""
        ...

    @property
    def api_server(self) -> str:
        """Its URL."""
        ...

    def env(self) -> dict[str, str]:
        """The environment for child processes, with KUBECONFIG."""
        ...


def _nothing(leases: Sequence[LeaseId]) -> None:
    """Nobody has to know."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`records`: namespace of the durable records. `stack`: configuration of the cluster stack. `provider`: settings of
    `lessor run`. `nodes`: what the provider says on chain that its nodes can do. `patience`: seconds that workloads may
    take to become ready. `real`: pods run their images. `expect` is told of leases before they are made.
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
    expect: Callable[[Sequence[LeaseId]], None] = _nothing
