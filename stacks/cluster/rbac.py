"""The rights of the provider process in the cluster: a table of rules, without `*` and cluster-admin (operators.md §6).

`escalate` is not among them: the provider may put into a tenant's Role only the rights that it has itself (to read
pods, logs, deployments and events of a namespace). What no right can limit, because the names do not exist yet,
`stacks.cluster.admission` limits. A right is here when the provider uses it, and not before.
"""

from __future__ import annotations

__all__ = ["PROVIDER_RULES"]

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "patch", "delete")
"""Every write is an apply or a merge, which are patches: nothing asks for `update`."""

PROVIDER_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # objects of lease stacks
    ("", ("namespaces", "services", "secrets", "serviceaccounts", "resourcequotas", "limitranges"), WRITE),
    ("apps", ("deployments", "statefulsets"), WRITE),
    ("networking.k8s.io", ("networkpolicies", "ingresses"), WRITE),
    ("rbac.authorization.k8s.io", ("roles", "rolebindings"), WRITE),
    ("gateway.networking.k8s.io", ("httproutes",), WRITE),
    ("gateway.networking.k8s.io", ("grpcroutes", "tlsroutes"), READ),
    ("traefik.io", ("ingressroutes", "ingressroutetcps"), READ),
    ("metallb.io", ("ipaddresspools", "l2advertisements"), WRITE),
    # durable records; the hostname operator writes the other status
    ("akash.network", ("manifests", "providerhosts", "providerleasedips"), WRITE),
    ("akash.network", ("providerleasedips/status",), ("patch",)),
    # status, health and a clean end; logs, events and shells of tenants; logs and events so that a tenant's Role may
    # have them
    ("", ("pods",), (*READ, "create", "patch", "delete")),  # create and patch: a dry run of a new version's pods
    ("", ("pods/log",), ("get",)),
    ("", ("events",), READ),
    ("events.k8s.io", ("events",), READ),
    # an API server asks for `get` when the command's connection is a WebSocket, newer ones for `create` too
    ("", ("pods/exec",), ("get", "create")),
    ("", ("endpoints",), ("get",)),
    ("", ("persistentvolumeclaims",), (*READ, "patch", "delete")),
    # volumes that outlive their lease
    ("", ("persistentvolumes",), (*READ, "patch")),
    # inventory
    ("", ("nodes",), READ),
    ("storage.k8s.io", ("storageclasses",), READ),
    # which of several provider processes works
    ("coordination.k8s.io", ("leases",), ("get", "create", "patch")),
    # what has to be there before the first bid
    ("networking.k8s.io", ("ingressclasses",), ("get",)),
    ("gateway.networking.k8s.io", ("gateways",), ("get",)),
    ("node.k8s.io", ("runtimeclasses",), ("get",)),
)
"""API group, resources, verbs: the rules of the provider's ClusterRole."""
