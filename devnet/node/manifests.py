"""Kubernetes objects of a real node's own workloads, as plain dictionaries."""

from __future__ import annotations

from typing import Any

__all__ = ["Object", "account", "manifest", "read_rule", "service", "workload"]

Object = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io"


def account(name: str, namespace: str, rules: list[Object]) -> list[Object]:
    """A service account and the cluster role with these rules."""
    role = f"devnet:{name}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    return [
        manifest("v1", "ServiceAccount", name, namespace),
        manifest(f"{_RBAC}/v1", "ClusterRole", role, rules=rules),
        manifest(f"{_RBAC}/v1", "ClusterRoleBinding", role, roleRef=reference, subjects=[subject]),
    ]


def read_rule(group: str, *resources: str) -> Object:
    """The right to get, list and watch these resources."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list", "watch"]}


def workload(kind: str, name: str, namespace: str, *, labels: dict[str, str], pod: Object) -> Object:
    """A Deployment or DaemonSet of pods with these labels."""
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return manifest("apps/v1", kind, name, namespace, spec=spec)


def service(name: str, namespace: str, *, selector: dict[str, str], ports: list[Object], address: str) -> Object:
    """A Service with a fixed cluster address."""
    spec = {"clusterIP": address, "selector": selector, "ports": ports}
    return manifest("v1", "Service", name, namespace, spec=spec)


def manifest(version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    """One object; `fields` are its keys beside apiVersion, kind and metadata."""
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
