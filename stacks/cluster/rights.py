"""Roles and bindings of the stack's processes, from their grants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from stacks.cluster.processes import Grant
from stacks.cluster.settings import TAKEN_OVER

__all__ = ["bind"]

_GROUP = "rbac.authorization.k8s.io"


def bind(
    grants: Iterable[Grant],
    *,
    name: str,
    subject: SubjectArgs,
    labels: Mapping[str, str],
    opts: ResourceOptions,
    resource: str = "",
) -> None:
    """Give `subject` the grants by roles called `name`. `opts`: of what is in a namespace. `resource`: Pulumi's name of
    the roles, `name` by default; that of a role in another namespace than the subject's has the namespace too.
    """
    own = str(subject.namespace)
    for grant in grants:
        if not grant.namespace:
            _everywhere(grant, name, subject, labels=labels, resource=resource or name)
        else:
            role_name = (resource or name) if grant.namespace == own else f"{resource or name}-{grant.namespace}"
            _within(grant, name, subject, labels=labels, resource=role_name, opts=opts)


def _rules(rules: Iterable[Rule], names: tuple[str, ...]) -> list[PolicyRuleArgs]:
    return [
        PolicyRuleArgs(
            api_groups=[group], resources=list(resources), verbs=list(verbs), resource_names=list(names) or None
        )
        for group, resources, verbs in rules
    ]


def _everywhere(grant: Grant, name: str, subject: SubjectArgs, *, labels: Mapping[str, str], resource: str) -> None:
    meta = ObjectMetaArgs(name=name, labels=dict(labels), annotations=TAKEN_OVER)
    ClusterRole(resource, metadata=meta, rules=_rules(grant.rules, grant.names))
    role = RoleRefArgs(api_group=_GROUP, kind="ClusterRole", name=name)
    ClusterRoleBinding(resource, metadata=meta, role_ref=role, subjects=[subject])


def _within(
    grant: Grant,
    name: str,
    subject: SubjectArgs,
    *,
    labels: Mapping[str, str],
    resource: str,
    opts: ResourceOptions,
) -> None:
    meta = ObjectMetaArgs(name=name, namespace=grant.namespace, labels=dict(labels), annotations=TAKEN_OVER)
    Role(resource, metadata=meta, rules=_rules(grant.rules, grant.names), opts=opts)
    role = RoleRefArgs(api_group=_GROUP, kind="Role", name=name)
    RoleBinding(resource, metadata=meta, role_ref=role, subjects=[subject], opts=opts)
