"""Rights: service accounts, the tokens of pods, and what Roles and bindings give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.pods import at, items, listed, pod_of
from policies.rules import BOTH, Manifest, ObjectProblem, Objects, RuleScope, fence, of_each

__all__ = ["RULES"]

_RESOURCES = frozenset({"pods", "pods/log", "events", "deployments"})
_VERBS = frozenset({"get", "list", "watch"})
_GROUPS = frozenset({"", "apps"})
_BUILT_IN = ("cluster-admin", "admin", "edit", "view")
_OF_AN_ACCOUNT = "kubernetes.io/service-account-token"
_ACCOUNT = "kubernetes.io/service-account.name"
_SECRET_TYPES = frozenset({"Opaque", "kubernetes.io/dockerconfigjson"})


def _service_accounts(objects: Objects) -> Iterator[ObjectProblem]:
    accounts = {str(at(item, "metadata").get("name")) for item in objects.of_kinds("ServiceAccount")}
    for manifest in objects:
        pod = pod_of(manifest)
        for field in ("serviceAccountName", "serviceAccount"):
            if pod.get(field) and pod[field] not in accounts:
                yield ObjectProblem(manifest, f"{field} {pod[field]} is not an account of this stack")
        if pod and pod.get("automountServiceAccountToken") is not False and not pod.get("serviceAccountName"):
            yield ObjectProblem(manifest, "the token of the account `default` is mounted")


def _causeless_tokens(objects: Objects) -> Iterator[ObjectProblem]:
    """A token without a Role is of no use but to an attacker."""
    bound = {
        str(subject.get("name"))
        for binding in objects.of_kinds("RoleBinding", "ClusterRoleBinding")
        for subject in items(binding, "subjects")
    }
    for manifest in objects:
        pod = pod_of(manifest)
        account = pod.get("serviceAccountName")
        if account and pod.get("automountServiceAccountToken") is not False and str(account) not in bound:
            yield ObjectProblem(manifest, f"the token of {account} is mounted, and no Role is bound to {account}")


def _rights(manifest: Manifest) -> Iterator[str]:
    kind, role = manifest.get("kind"), at(manifest, "roleRef")
    name = str(role.get("name"))
    if kind in ("ClusterRoleBinding", "RoleBinding") and (name in _BUILT_IN or name.startswith("system:")):
        yield f"it binds {name}"
    if kind in ("Role", "ClusterRole"):
        if "aggregationRule" in manifest:
            yield "its rules are those of other roles"
        words = {str(word) for rule in items(manifest, "rules") for field in rule.values() for word in listed(field)}
        if bad := words & {"*", "escalate", "bind", "impersonate"}:
            yield f"its rules have {', '.join(sorted(bad))}"
        if any("nonResourceURLs" in rule for rule in items(manifest, "rules")):
            yield "its rules have paths of the API server"


def _lease_rights(manifest: Manifest) -> Iterator[str]:
    if manifest.get("kind") == "RoleBinding":
        yield from _bound(manifest, at(manifest, "roleRef"))
    else:
        for rule in items(manifest, "rules"):
            yield from _rule(rule)


def _bound(manifest: Manifest, role: Mapping[str, Any]) -> Iterator[str]:
    if role.get("kind") != "Role":
        yield f"it binds a {role.get('kind')}"
    for subject in items(manifest, "subjects"):
        own = subject.get("namespace") == at(manifest, "metadata").get("namespace")
        if subject.get("kind") != "ServiceAccount" or not own:
            yield f"it gives rights to {subject.get('kind')} {subject.get('namespace')}/{subject.get('name')}"


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    resources, verbs = set(map(str, listed(rule.get("resources")))), set(map(str, listed(rule.get("verbs"))))
    groups = set(map(str, listed(rule.get("apiGroups", [""]))))
    if resources - _RESOURCES or verbs - _VERBS or groups - _GROUPS or not resources:
        yield f"it allows {', '.join(sorted(verbs))} of {', '.join(sorted(resources)) or 'anything'}"


def _secrets(manifest: Manifest) -> Iterator[str]:
    kind = manifest.get("type", "Opaque")
    if kind == _OF_AN_ACCOUNT or _ACCOUNT in at(manifest, "metadata", "annotations"):
        yield "it becomes the token of a service account"
    elif kind not in _SECRET_TYPES:
        yield f"its type is {kind}"


RULES = (
    fence(
        "own-service-account",
        _service_accounts,
        reason="A pod has the rights of its service account.",
        remedy="Use an account of the same stack, or none, and mount no token of the account `default`.",
        scope=RuleScope.STACK,
        domains=BOTH,
    ),
    fence(
        "no-causeless-token",
        _causeless_tokens,
        reason="A token that nothing needs is one that an attacker finds.",
        remedy="Set automountServiceAccountToken to false, or bind the Role that the pod needs.",
        scope=RuleScope.STACK,
        domains=BOTH,
    ),
    fence(
        "no-cluster-rights",
        of_each(_rights, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
        reason="All rights, rights to take more rights, and the built-in roles are the cluster itself.",
        remedy="Name the resources and verbs that are needed, and bind a role of the stack.",
        domains=BOTH,
    ),
    fence(
        "read-own-namespace",
        of_each(_lease_rights, "Role", "RoleBinding"),
        reason="A tenant may read pods, logs and events of its own namespace, and nothing else.",
        remedy="Bind a Role of the namespace that reads pods, pods/log, deployments or events.",
    ),
    fence(
        "known-secrets",
        of_each(_secrets, "Secret"),
        reason="A Secret of the type service-account-token gives the rights of the account that it names.",
        remedy="Use the types Opaque and kubernetes.io/dockerconfigjson.",
    ),
)
