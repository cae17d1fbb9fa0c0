"""The rights of the provider process in the cluster: a table of rules, without `*` and cluster-admin (operators.md §6).

`escalate` is not among them: the provider may put into a tenant's Role only the rights that it has itself (to read
pods, logs, deployments and events of a namespace).
"""

from __future__ import annotations

from pulumi_kubernetes.rbac.v1 import PolicyRuleArgs

__all__ = ["provider_rules"]

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")

_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # objects of lease stacks
    ("", ("namespaces", "services", "secrets", "serviceaccounts"), WRITE),
    ("apps", ("deployments", "statefulsets"), WRITE),
    ("networking.k8s.io", ("networkpolicies", "ingresses"), WRITE),
    ("rbac.authorization.k8s.io", ("roles", "rolebindings"), WRITE),
    ("gateway.networking.k8s.io", ("httproutes",), WRITE),
    ("gateway.networking.k8s.io", ("gateways",), READ),
    ("metallb.io", ("ipaddresspools", "l2advertisements"), WRITE),
    # durable records; `status` is what the operators write
    ("akash.network", ("manifests", "providerhosts", "providerleasedips"), WRITE),
    (
        "akash.network",
        tuple(f"{name}/status" for name in ("manifests", "providerhosts", "providerleasedips")),
        ("get", "patch", "update"),
    ),
    # what runs, for status, health, logs, shell, and a clean end
    ("", ("pods",), (*READ, "create", "delete")),
    ("", ("pods/log", "pods/proxy"), ("get",)),
    ("", ("pods/exec", "pods/portforward"), ("get", "create")),
    ("", ("events",), (*READ, "create", "patch")),
    ("", ("endpoints",), READ),
    ("discovery.k8s.io", ("endpointslices",), READ),
    ("apps", ("replicasets", "controllerrevisions", "daemonsets"), READ),
    ("", ("persistentvolumeclaims", "persistentvolumes"), (*READ, "patch", "delete")),
    # inventory
    ("", ("nodes",), (*READ, "patch")),
    ("", ("services/proxy",), ("get",)),
    ("", ("configmaps",), READ),
    ("storage.k8s.io", ("storageclasses", "csistoragecapacities"), READ),
    ("node.k8s.io", ("runtimeclasses",), READ),
    ("networking.k8s.io", ("ingressclasses",), READ),
    ("ceph.rook.io", ("cephclusters", "cephblockpools"), READ),
    ("longhorn.io", ("nodes", "volumes", "replicas", "settings"), READ),
    ("apiextensions.k8s.io", ("customresourcedefinitions",), READ),
    # one leader
    ("coordination.k8s.io", ("leases",), WRITE),
)


def provider_rules() -> list[PolicyRuleArgs]:
    """Rules of the provider's ClusterRole."""
    return [
        PolicyRuleArgs(api_groups=[group], resources=list(resources), verbs=list(verbs))
        for group, resources, verbs in _RULES
    ]
