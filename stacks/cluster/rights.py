"""Roles and bindings of the stack's processes, from their tables of rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pulumi import ResourceOptions
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRuleArgs,
    Role,
    RoleBinding,
    RoleRefArgs,
    SubjectArgs,
)

from stacks.cluster.inventory_rights import Rule

__all__ = ["bind", "policy_rules"]

_GROUP = "rbac.authorization.k8s.io"


class _Holder(Protocol):
    @property
    def account(self) -> str: ...
    @property
    def cluster_rules(self) -> tuple[Rule, ...]: ...
    @property
    def namespace_rules(self) -> tuple[Rule, ...]: ...


def policy_rules(rules: Iterable[Rule]) -> list[PolicyRuleArgs]:
    """A table of rights as the rules of a Role."""
    return [
        PolicyRuleArgs(api_groups=[group], resources=list(resources), verbs=list(verbs))
        for group, resources, verbs in rules
    ]


def bind(holder: _Holder, *, namespace: str, labels: Mapping[str, str], opts: ResourceOptions) -> None:
    """Give an account of `namespace` its rights: those of the whole cluster, and those of its own namespace."""
    name = holder.account
    subject = SubjectArgs(kind="ServiceAccount", name=name, namespace=namespace)
    if holder.cluster_rules:
        meta = ObjectMetaArgs(name=name, labels=dict(labels))
        ClusterRole(name, metadata=meta, rules=policy_rules(holder.cluster_rules))
        role = RoleRefArgs(api_group=_GROUP, kind="ClusterRole", name=name)
        ClusterRoleBinding(name, metadata=meta, role_ref=role, subjects=[subject])
    if holder.namespace_rules:
        meta = ObjectMetaArgs(name=name, namespace=namespace, labels=dict(labels))
        Role(name, metadata=meta, rules=policy_rules(holder.namespace_rules), opts=opts)
        role = RoleRefArgs(api_group=_GROUP, kind="Role", name=name)
        RoleBinding(name, metadata=meta, role_ref=role, subjects=[subject], opts=opts)
