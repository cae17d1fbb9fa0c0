"""The cluster stack's own least privilege: what the provider's processes may do, and what bounds the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.pods import all_containers, at, items, listed, named, pod_of
from policies.rules import Domain, Manifest, ObjectProblem, Objects, RuleScope, Severity, fence, of_each

__all__ = ["RULES"]

_POWERS = {
    ("", "nodes/proxy"): "every container of the node",
    ("", "nodes/exec"): "every container of the node",
    ("", "pods/attach"): "every container of the cluster",
    ("", "pods/portforward"): "every pod of the cluster",
    ("", "serviceaccounts/token"): "the rights of every account",
    ("certificates.k8s.io", "certificatesigningrequests/approval"): "the rights of every user",
    ("rbac.authorization.k8s.io", "clusterroles"): "more rights",
    ("rbac.authorization.k8s.io", "clusterrolebindings"): "more rights",
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): "the fence around itself",
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): "the fence around itself",
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): "every request of the cluster",
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): "every object of the cluster",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "every custom resource",
}
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_BOUNDED = frozenset(
    {
        ("", "namespaces"),
        ("", "pods"),
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)
"""What becomes cluster-admin when it may be written in every namespace: by a pod, a token or a binding."""


def _powers(manifest: Manifest) -> Iterator[str]:
    for rule in items(manifest, "rules"):
        verbs = set(map(str, listed(rule.get("verbs"))))
        for group in map(str, listed(rule.get("apiGroups"))):
            for resource in map(str, listed(rule.get("resources"))):
                power = _POWERS.get((group, resource))
                if power and (verbs & _WRITES or resource.startswith("nodes/")):
                    yield f"it may {', '.join(sorted(verbs))} {resource}, which gives {power}"


def _unbounded(objects: Objects) -> Iterator[ObjectProblem]:
    """An account with such a right in the whole cluster is bounded by a policy that refuses."""
    bounded = _bounded_accounts(objects)
    roles = {str(at(role, "metadata").get("name")): role for role in objects.of_kinds("ClusterRole")}
    for binding in objects.of_kinds("ClusterRoleBinding"):
        name = str(at(binding, "roleRef").get("name"))
        risky = _risky(roles.get(name, {}))
        for subject in items(binding, "subjects"):
            account = f"system:serviceaccount:{subject.get('namespace')}:{subject.get('name')}"
            if risky and account not in bounded:
                what = ", ".join(risky)
                yield ObjectProblem(binding, f"{account} may write {what} everywhere, and no policy bounds it")


def _risky(role: Mapping[str, Any]) -> list[str]:
    found = set()
    for rule in items(role, "rules"):
        if not set(map(str, listed(rule.get("verbs")))) & {"create", "update", "patch"} or rule.get("resourceNames"):
            continue
        for group in map(str, listed(rule.get("apiGroups"))):
            found |= {name for name in map(str, listed(rule.get("resources"))) if (group, name) in _BOUNDED}
    return sorted(found)


def _bounded_accounts(objects: Objects) -> set[str]:
    """The accounts that a policy with a denying binding names in its match conditions."""
    denied = {
        str(at(binding, "spec").get("policyName"))
        for binding in objects.of_kinds("ValidatingAdmissionPolicyBinding")
        if "Deny" in listed(at(binding, "spec").get("validationActions"))
    }
    texts = [
        str(condition.get("expression"))
        for policy in objects.of_kinds("ValidatingAdmissionPolicy")
        if at(policy, "spec").get("failurePolicy") == "Fail" and at(policy, "metadata").get("name") in denied
        for condition in items(at(policy, "spec"), "matchConditions")
    ]
    return {part for text in texts for part in text.split("'") if part.startswith("system:serviceaccount:")}


def _liveness(manifest: Manifest) -> Iterator[str]:
    """A liveness probe that asks more than the process restarts it while the chain or the API server is away."""
    for container in all_containers(manifest, ("containers",)):
        for name in ("readinessProbe", "livenessProbe"):
            if not at(container, name):
                yield f"{named(container)} has no {name}"
        live, ready = (at(container, name, "httpGet").get("path") for name in ("livenessProbe", "readinessProbe"))
        if live is not None and live == ready:
            yield f"{named(container)} is restarted by the question that says whether it is ready"


def _webhooks(manifest: Manifest) -> Iterator[str]:
    yield f"a {manifest.get('kind')} is asked about every object of the cluster"


def _own_namespaces(manifest: Manifest) -> Iterator[str]:
    level = at(manifest, "metadata", "labels").get("pod-security.kubernetes.io/enforce")
    if level == "privileged":
        yield "its admission level is privileged"


def _named_accounts(manifest: Manifest) -> Iterator[str]:
    pod = pod_of(manifest)
    if pod and pod.get("serviceAccountName") in (None, "", "default"):
        yield "its pods have the account default"


RULES = (
    fence(
        "no-power-over-the-cluster",
        of_each(_powers, "ClusterRole", "Role"),
        reason="These rights are those of cluster-admin by another name.",
        remedy="Remove the right.",
        domains=(Domain.CLUSTER,),
    ),
    fence(
        "bounded-accounts",
        _unbounded,
        reason="Who may write pods, Secrets or bindings in every namespace can become cluster-admin.",
        remedy="Set lessor:admission-policy to true, or name the objects (resourceNames).",
        scope=RuleScope.STACK,
        domains=(Domain.CLUSTER,),
        severity=Severity.HIGH,
    ),
    fence(
        "liveness-asks-nobody",
        of_each(_liveness, "Deployment", "StatefulSet"),
        reason="A restart makes nothing better while the chain or the API server is away.",
        remedy="Ask different paths for liveness and readiness.",
        domains=(Domain.CLUSTER,),
        severity=Severity.HIGH,
    ),
    fence(
        "no-webhook",
        of_each(_webhooks, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        reason="A webhook that does not answer stops the cluster.",
        remedy="Use a ValidatingAdmissionPolicy.",
        domains=(Domain.CLUSTER,),
        severity=Severity.HIGH,
    ),
    fence(
        "no-privileged-namespace",
        of_each(_own_namespaces, "Namespace"),
        reason="The provider's own processes need no privileges.",
        remedy="Use the level restricted or baseline.",
        domains=(Domain.CLUSTER,),
        severity=Severity.HIGH,
    ),
    fence(
        "named-accounts",
        of_each(_named_accounts, "Deployment", "StatefulSet"),
        reason="Each process has the rights that it needs, which its own account names.",
        remedy="Set serviceAccountName.",
        domains=(Domain.CLUSTER,),
        severity=Severity.HIGH,
    ),
)
