"""A service's rights to read its own namespace: ServiceAccount, Role and RoleBinding (kubernetes-objects.md §2.3)."""

from __future__ import annotations

from collections.abc import Iterable

from components.labels import Object, lease_labels, metadata, service_labels
from lease.spec import LeaseSpec, ServiceSpec

__all__ = ["access_objects", "access_rules"]

_RBAC = "rbac.authorization.k8s.io"


def access_objects(spec: LeaseSpec, service: ServiceSpec) -> tuple[Object, ...]:
    """ServiceAccount, Role and RoleBinding, all named after the service; empty for a service without permissions."""
    if not service.permissions_read:
        return ()
    meta = metadata(service.name, spec.namespace, labels=service_labels(spec, service) | lease_labels(spec.lease))
    rules = list(access_rules(service.permissions_read))
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(meta)},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": dict(meta), "rules": rules},
        {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": dict(meta)} | _binding(service.name, spec),
    )


def access_rules(read: Iterable[str]) -> tuple[Object, ...]:
    """Role rules for a `permissions.read` list, in its order and without repetition. Unknown entries give no rule."""
    return tuple(rule for entry in dict.fromkeys(read) for rule in _rules_of(entry))


def _rules_of(entry: str) -> tuple[Object, ...]:
    match entry:
        case "logs":
            return (_rule("", "pods"), _rule("", "pods/log", ("get",)), _rule("apps", "deployments"))
        case "events":
            return (_rule("", "events"),)
        case _:
            return ()


def _rule(group: str, resource: str, verbs: tuple[str, ...] = ("get", "list", "watch")) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _binding(name: str, spec: LeaseSpec) -> Object:
    return {
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": spec.namespace}],
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }
