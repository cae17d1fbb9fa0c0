"""The processes of a provider in the cluster, as data: command, ports, probes and rights (operators.md §6, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stacks.cluster.inventory_rights import (
    CLUSTER_RULES,
    INVENTORY_CONTAINER,
    INVENTORY_PORTS,
    INVENTORY_PROBES,
    NAMESPACE_RULES,
    Rule,
)
from stacks.cluster.rbac import PROVIDER_RULES
from stacks.cluster.settings import ClusterStackSettings

__all__ = ["PROVIDER", "Process", "operators", "provider"]

PROVIDER = "akash-provider"
"""The name and the label `app` by which clients of the Go provider find its pod."""
_PORTS = {"api": 8443, "grpc": 8444, "metrics": 9090, "health": 8090}


@dataclass(frozen=True, slots=True)
class Process:
    """`ports`: by name, of the container and of the Service. `liveness` and `readiness`: path and port's name.
    `public`: the ports that everybody may connect to; the others are open to the own namespace.
    """

    name: str
    container: str
    account: str
    command: tuple[str, ...]
    ports: Mapping[str, int]
    liveness: tuple[str, str]
    readiness: tuple[str, str]
    public: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster_rules: tuple[Rule, ...] = ()
    namespace_rules: tuple[Rule, ...] = ()
    cpu: str = "500m"
    memory: str = "512Mi"


def provider(settings: ClusterStackSettings) -> Process:
    """The provider itself. Neither probe asks the chain or the API server."""
    return Process(
        name=PROVIDER,
        container="provider",
        account=settings.service_account,
        command=("lessor", "run"),
        ports=_PORTS,
        liveness=("/healthz", "health"),
        readiness=("/readyz", "health"),
        public=("api", "grpc"),
        labels={"app": PROVIDER},
        cluster_rules=PROVIDER_RULES,
        cpu=settings.processes.cpu,
        memory=settings.processes.memory,
    )


def operators(settings: ClusterStackSettings) -> list[Process]:
    """The operators that the settings ask for."""
    return [_inventory(settings.services_namespace)] if settings.processes.inventory else []


def _inventory(namespace: str) -> Process:
    return Process(
        name=INVENTORY_CONTAINER,
        container=INVENTORY_CONTAINER,
        account=INVENTORY_CONTAINER,
        command=("lessor", "operator", "inventory", "--pod-name=$(POD_NAME)", f"--pod-namespace={namespace}"),
        ports=INVENTORY_PORTS,
        liveness=(INVENTORY_PROBES["liveness"], "rest"),
        readiness=(INVENTORY_PROBES["readiness"], "rest"),
        labels={
            "app.kubernetes.io/name": "inventory",
            "app.kubernetes.io/instance": "inventory-service",
            "app.kubernetes.io/component": "operator",
            "app.kubernetes.io/part-of": "provider",
        },
        cluster_rules=CLUSTER_RULES,
        namespace_rules=NAMESPACE_RULES,
    )
