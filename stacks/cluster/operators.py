"""The three operators as processes of the cluster stack (operators.md §6, §7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stacks.cluster.claims_rights import (
    HOSTNAME_CONTAINER,
    HOSTNAME_RULES,
    IP_CLUSTER_RULES,
    IP_CONTAINER,
    IP_METALLB_RULES,
    IP_RULES,
    PORTS,
    PROBES,
)
from stacks.cluster.inventory_rights import (
    CLUSTER_RULES,
    INVENTORY_CONTAINER,
    INVENTORY_PORTS,
    INVENTORY_PROBES,
    NAMESPACE_RULES,
    ROOK_RULES,
)
from stacks.cluster.processes import CONFIGURATION, Grant, Process
from stacks.cluster.settings import ClusterStackSettings

__all__ = ["operators"]

_LOG = ("LESSOR_LOG_FORMAT", "LESSOR_LOG_LEVEL")
_HOSTNAME_VARIABLES = (*_LOG, "LESSOR_EDGE_ADDRESSES", "LESSOR_EDGE_ENDPOINT", "LESSOR_EDGE_TLS_ENDPOINT")
_IP_VARIABLES = (*_LOG, "LESSOR_IP_RANGES", "LESSOR_IP_POOLS")


def operators(settings: ClusterStackSettings) -> list[Process]:
    """The operators that the settings ask for. The IP operator serves the leases of one account."""
    processes = settings.processes
    addresses = processes.ip and processes.account and settings.metallb.required
    found = [
        _inventory(settings) if processes.inventory else None,
        _hostname(settings) if processes.hostname else None,
        _ip(settings) if addresses else None,
    ]
    return [one for one in found if one is not None]


def _labels(name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": f"{name}-service",
        "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/part-of": "provider",
    }


def _chosen(settings: ClusterStackSettings, names: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
    """What an operator reads of the provider's settings, and the namespace of the records."""
    given = settings.processes.environment
    return {"AP_K8S_MANIFEST_NS": settings.manifest_namespace, **own} | {
        name: given[name] for name in names if name in given
    }


def _inventory(settings: ClusterStackSettings) -> Process:
    processes, namespace = settings.processes, settings.services_namespace
    command = ["lessor", "operator", "inventory", "--pod-name=$(POD_NAME)", f"--pod-namespace={namespace}"]
    if processes.privileged_discovery:
        command.append("--discovery-privileged")
    grants = [Grant(CLUSTER_RULES), Grant(NAMESPACE_RULES, namespace)]
    if processes.rook_namespace:
        grants.append(Grant(ROOK_RULES, processes.rook_namespace))
    configuration = processes.inventory_config.document() if processes.inventory_config else {}
    if configuration:
        command.append(f"--config={CONFIGURATION}")
    return Process(
        name=INVENTORY_CONTAINER,
        container=INVENTORY_CONTAINER,
        account=INVENTORY_CONTAINER,
        command=tuple(command),
        ports=INVENTORY_PORTS,
        liveness=(INVENTORY_PROBES["liveness"], "rest"),
        readiness=(INVENTORY_PROBES["readiness"], "rest"),
        labels=_labels("inventory"),
        grants=tuple(grants),
        configuration=configuration,
    )


def _hostname(settings: ClusterStackSettings) -> Process:
    return Process(
        name=HOSTNAME_CONTAINER,
        container=HOSTNAME_CONTAINER,
        account=HOSTNAME_CONTAINER,
        command=("lessor", "operator", "hostname"),
        ports=PORTS,
        liveness=("", "rest"),
        readiness=(PROBES["readiness"], "rest"),
        labels=_labels("hostname"),
        grants=(Grant(HOSTNAME_RULES, settings.manifest_namespace),),
        environment=_chosen(settings, _HOSTNAME_VARIABLES, {}),
    )


def _ip(settings: ClusterStackSettings) -> Process:
    metallb = settings.metallb.namespace
    return Process(
        name=IP_CONTAINER,
        container=IP_CONTAINER,
        account=IP_CONTAINER,
        command=("lessor", "operator", "ip", f"--provider={settings.processes.account}"),
        ports=PORTS,
        liveness=("", "rest"),
        readiness=(PROBES["readiness"], "rest"),
        labels=_labels("ip"),
        grants=(
            Grant(IP_RULES, settings.manifest_namespace),
            Grant(IP_METALLB_RULES, metallb),
            Grant(IP_CLUSTER_RULES),
        ),
        environment=_chosen(settings, _IP_VARIABLES, {"LESSOR_METALLB_NAMESPACE": metallb}),
    )
