"""Kinds and namespaces: the objects that a stack is made of, and where they are."""

from __future__ import annotations

from collections.abc import Iterator

from policies.pods import at
from policies.rules import BOTH, Manifest, ObjectProblem, Objects, RuleScope, fence, of_each

__all__ = ["LEASE_KINDS", "RULES", "SHARED_KINDS"]

LEASE_KINDS = frozenset(
    {
        "Deployment",
        "HTTPRoute",
        "IPAddressPool",
        "Ingress",
        "L2Advertisement",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "StatefulSet",
    }
)
SHARED_KINDS = frozenset({"IPAddressPool", "L2Advertisement"})
"""Kinds of a lease that are in MetalLB's namespace."""
_SYSTEM = ("kube-system", "kube-public", "kube-node-lease", "default")
_ADMISSION = ("baseline", "restricted")


def _known_kinds(objects: Objects) -> Iterator[ObjectProblem]:
    for manifest in objects if objects.lease_namespaces else ():
        if str(manifest.get("kind")) not in LEASE_KINDS:
            yield ObjectProblem(manifest, f"a lease has no {manifest.get('kind')}")


def _own_namespace(objects: Objects) -> Iterator[ObjectProblem]:
    own = objects.lease_namespaces
    shared = objects.lease.metallb_namespace if objects.lease else None
    for manifest in objects:
        where, kind = at(manifest, "metadata").get("namespace"), manifest.get("kind")
        if where in _SYSTEM or str(where).startswith("kube-"):
            yield ObjectProblem(manifest, f"it is in namespace {where}")
        elif own and kind in SHARED_KINDS:
            if shared is not None and where != shared:
                yield ObjectProblem(manifest, f"it is in namespace {where}, which is not MetalLB's ({shared})")
        elif own and kind != "Namespace" and where not in own:
            yield ObjectProblem(manifest, f"it is in namespace {where}, which is not the lease's")


def _one_namespace(objects: Objects) -> Iterator[ObjectProblem]:
    spaces = list(objects.of_kinds("Namespace")) if objects.lease_namespaces else []
    for space in spaces:
        if len(spaces) > 1 or (objects.lease and at(space, "metadata").get("name") != objects.lease.namespace):
            yield ObjectProblem(space, "it is not the one namespace of this lease")


def _admission(objects: Objects) -> Iterator[ObjectProblem]:
    for space in objects.of_kinds("Namespace"):
        labels = at(space, "metadata", "labels")
        level = labels.get("pod-security.kubernetes.io/enforce")
        if objects.lease_namespaces and level not in _ADMISSION:
            yield ObjectProblem(space, f"its admission level is {level or 'not set'}")


def _names(manifest: Manifest) -> Iterator[str]:
    if not isinstance(at(manifest, "metadata").get("name"), str | None):
        yield "its name is no text"
    for field in ("ownerReferences", "finalizers"):
        if at(manifest, "metadata").get(field):
            yield f"it has {field}"


RULES = (
    fence(
        "known-kinds",
        _known_kinds,
        reason="An object of another kind (a PodTemplate, a DaemonSet, a webhook) is judged by no other rule.",
        remedy="Use the kinds that a lease is made of.",
        scope=RuleScope.STACK,
    ),
    fence(
        "own-namespace",
        _own_namespace,
        reason="An object in another namespace acts there: on other tenants, or on the cluster itself.",
        remedy="Put it into the namespace of the lease.",
        scope=RuleScope.STACK,
        domains=BOTH,
    ),
    fence(
        "one-namespace",
        _one_namespace,
        reason="A second namespace of a lease is outside its quota, its policies and its end.",
        remedy="Make the one namespace that is named after the lease.",
        scope=RuleScope.STACK,
    ),
    fence(
        "admission-level",
        _admission,
        reason="The API server's own admission is the second fence.",
        remedy="Label the namespace pod-security.kubernetes.io/enforce=baseline.",
        scope=RuleScope.STACK,
        form=2,
    ),
    fence(
        "no-foreign-lifetime",
        of_each(_names),
        reason="An owner or a finalizer of another object decides when this object goes, and a lease must end.",
        remedy="Remove metadata.ownerReferences and metadata.finalizers.",
        domains=BOTH,
    ),
)
