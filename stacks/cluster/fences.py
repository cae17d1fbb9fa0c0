"""Network policies of the provider's own namespaces: closed to all, but for the ports that each process serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulumi import ResourceOptions
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs
from pulumi_kubernetes.networking.v1 import (
    NetworkPolicy,
    NetworkPolicyIngressRuleArgs,
    NetworkPolicyPeerArgs,
    NetworkPolicyPortArgs,
    NetworkPolicySpecArgs,
)

from stacks.cluster.inventory_rights import DISCOVERY_LABELS, DISCOVERY_PORT, INVENTORY_CONTAINER
from stacks.cluster.processes import Process
from stacks.cluster.settings import TAKEN_OVER

__all__ = ["close", "open_discovery", "open_ports"]

_NAME = "kubernetes.io/metadata.name"


def close(namespace: str, *, labels: Mapping[str, str], opts: ResourceOptions, both: bool = False) -> None:
    """No pod of the namespace is reached, unless another policy says so. `both`: and none reaches anything."""
    types = ["Ingress", "Egress"] if both else ["Ingress"]
    NetworkPolicy(
        f"closed-{namespace}",
        metadata=ObjectMetaArgs(name="closed", namespace=namespace, labels=dict(labels), annotations=TAKEN_OVER),
        spec=NetworkPolicySpecArgs(pod_selector=LabelSelectorArgs(), policy_types=types),
        opts=opts,
    )


def open_ports(process: Process, *, namespace: str, labels: Mapping[str, str], opts: ResourceOptions) -> None:
    """The process is reached at its public ports by everybody, at the others by its own namespace. A tenant's egress
    is closed to it by the tenant's own policies.
    """
    own = NetworkPolicyPeerArgs(namespace_selector=LabelSelectorArgs(match_labels={_NAME: namespace}))
    inner = [name for name in process.ports if name not in process.public]
    rules = [NetworkPolicyIngressRuleArgs(from_=[own], ports=_ports(inner))] if inner else []
    if process.public:
        rules.append(NetworkPolicyIngressRuleArgs(ports=_ports(process.public)))
    NetworkPolicy(
        f"open-{process.name}",
        metadata=ObjectMetaArgs(name=process.name, namespace=namespace, labels=dict(labels), annotations=TAKEN_OVER),
        spec=NetworkPolicySpecArgs(
            pod_selector=LabelSelectorArgs(match_labels=dict(process.labels)), policy_types=["Ingress"], ingress=rules
        ),
        opts=opts,
    )


def open_discovery(namespace: str, *, labels: Mapping[str, str], opts: ResourceOptions) -> None:
    """The API server reaches the discovery pods of every node for the inventory operator. The API server is no pod, and
    its addresses are not known here, so that the port is open to all. The port serves what hardware the node has.
    """
    port = NetworkPolicyPortArgs(protocol="TCP", port=DISCOVERY_PORT)
    name = f"{INVENTORY_CONTAINER}-hardware-discovery"
    NetworkPolicy(
        f"open-{name}",
        metadata=ObjectMetaArgs(name=name, namespace=namespace, labels=dict(labels), annotations=TAKEN_OVER),
        spec=NetworkPolicySpecArgs(
            pod_selector=LabelSelectorArgs(match_labels=dict(DISCOVERY_LABELS)),
            policy_types=["Ingress"],
            ingress=[NetworkPolicyIngressRuleArgs(ports=[port])],
        ),
        opts=opts,
    )


def _ports(names: Iterable[str]) -> list[NetworkPolicyPortArgs]:
    return [NetworkPolicyPortArgs(protocol="TCP", port=name) for name in names]
