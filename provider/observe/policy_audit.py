"""The policies over what there is: the recorded state of every stack, what runs in the namespaces of leases, and the
objects of the cluster stack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.labels import FORM_LABEL
from lease.addresses import pool_name
from lease.ids import namespace_name
from lease.spec import FIRST_FORM, LeaseSpec
from policies.book import RuleBook
from policies.facts import facts_of
from policies.rules import Domain, Manifest, Violation
from policies.running import declared
from provider.errors import ClusterError
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.drift import ALWAYS_WATCHED
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    NAMESPACE,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from provider.records.applied import APPLIED_LABEL, read_applied
from provider.records.manifests import BadRecordError

__all__ = ["CLUSTER_STACK", "Audit", "Finding", "audit_cluster_stack", "audit_recorded", "audit_running"]

_NAMESPACED = (
    *(kind for kind in ALWAYS_WATCHED if kind is not SECRET),
    DEPLOYMENT,
    STATEFUL_SET,
    HTTP_ROUTE,
    POD,
    Kind("apps/v1", "DaemonSet", "daemonsets"),
    Kind("batch/v1", "Job", "jobs"),
    Kind("batch/v1", "CronJob", "cronjobs"),
)
"""What may run in a namespace of a lease, or open it. Secrets are not read."""
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
_OF_THE_STACK = (
    NAMESPACE,
    Kind(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    Kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Kind(_RBAC, "Role", "roles"),
    Kind(_RBAC, "RoleBinding", "rolebindings"),
    Kind(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False),
    Kind(_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False),
    Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    DEPLOYMENT,
    STATEFUL_SET,
    Kind("apps/v1", "DaemonSet", "daemonsets"),
    SERVICE,
)
"""What the rules of the cluster stack judge."""
CLUSTER_STACK = "cluster-stack"
"""Where the findings are, in place of a lease's namespace."""
_MADE_BY_STACK = {"app.kubernetes.io/managed-by": "lessor"}
_SHARED = (IP_ADDRESS_POOL, L2_ADVERTISEMENT)
_DEFAULT_ACCOUNT = "default"
_OF_ACCOUNTS = ("ServiceAccount", "RoleBinding")
_ABSENT, _FORBIDDEN = 404, 403


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation in the namespace of a lease, or in CLUSTER_STACK. `source`: `recorded` or `running`."""

    namespace: str
    source: str
    violation: Violation


@dataclass(frozen=True, slots=True)
class Audit:
    """`unread`: kinds that the account may not list, so that nothing is known of their objects."""

    findings: Sequence[Finding]
    leases: int
    unread: Sequence[str] = ()


def audit_recorded(
    book: RuleBook, stacks: Iterable[str], objects: Callable[[str], Iterable[Manifest]]
) -> Iterator[Finding]:
    """The violations in the recorded objects of each stack. They are judged by the rules of their form."""
    for stack in stacks:
        listed = list(objects(stack))
        for violation in book.judge(listed, form=_form(listed)):
            yield Finding(stack, "recorded", violation)


async def audit_running(book: RuleBook, cluster: Cluster, *, records: str) -> Audit:
    """The violations in what runs: all objects in the namespaces of leases, whoever made them. `records`: namespace of
    the applied Secrets, which say what each lease rents. Raises `ClusterError`.
    """
    spaces = {str(each["metadata"]["name"]): each for each in await _leases(cluster)}
    kinds = (*_NAMESPACED, *_SHARED)
    listed = dict(zip(kinds, await asyncio.gather(*(_listed(cluster, kind) for kind in kinds)), strict=True))
    specs = await _specs(cluster, records)
    found = []
    for name, space in sorted(spaces.items()):
        own = [obj for kind in _NAMESPACED for obj in listed[kind] or () if obj["metadata"].get("namespace") == name]
        shared = [obj for kind in _SHARED for obj in listed[kind] or () if _is_leased(obj, specs.get(name))]
        violations = _judged(book, [space, *own, *shared], specs.get(name))
        found += [Finding(name, "running", violation) for violation in violations]
    return Audit(found, len(spaces), [kind.plural for kind, objects in listed.items() if objects is None])


async def audit_cluster_stack(book: RuleBook, cluster: Cluster) -> Audit:
    """The violations in the cluster stack's objects as they are in the cluster. All of them are judged together, so
    that nothing is judged when the account may not list one of the kinds. Raises `ClusterError`.
    """
    lists = await asyncio.gather(*(_listed(cluster, kind, labels=_MADE_BY_STACK) for kind in _OF_THE_STACK))
    unread = [kind.plural for kind, objects in zip(_OF_THE_STACK, lists, strict=True) if objects is None]
    if unread:
        return Audit((), 0, unread)
    found = [declared(obj) for objects in lists for obj in objects or ()]
    judged = book.judge(found, domain=Domain.CLUSTER)
    return Audit([Finding(CLUSTER_STACK, "running", violation) for violation in judged], 0)


async def _leases(cluster: Cluster) -> list[dict[str, Any]]:
    """The namespaces of leases that are not about to go."""
    found = await cluster.list(NAMESPACE, labels=MANAGED)
    return [
        each
        for each in found
        if (lease := lease_of(each)) is not None
        and namespace_name(lease) == each["metadata"]["name"]
        and not each["metadata"].get("deletionTimestamp")
    ]


async def _listed(
    cluster: Cluster, kind: Kind, *, labels: Mapping[str, str] | None = None
) -> list[dict[str, Any]] | None:
    """All objects of a kind, with apiVersion and kind, which items of a list may lack; None where the account may not
    list them. A kind that the cluster does not have has no objects.
    """
    try:
        found = await cluster.list(kind, labels=labels or {})
    except ClusterError as error:
        if error.status == _ABSENT:
            return []
        if error.status == _FORBIDDEN:
            return None
        raise
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in found]


async def _specs(cluster: Cluster, records: str) -> dict[str, LeaseSpec]:
    """What was applied last to each lease, by namespace. A record that cannot be read is left out."""
    found = {}
    for secret in await cluster.list(SECRET, namespace=records, labels=APPLIED_LABEL):
        try:
            applied = read_applied(secret)
        except BadRecordError:
            continue
        if applied.spec is not None:
            found[applied.spec.namespace] = applied.spec
    return found


def _is_leased(shared: Mapping[str, Any], spec: LeaseSpec | None) -> bool:
    """Whether the pool or advertisement holds an address of this lease."""
    names = {pool_name(each.sharing_key) for each in spec.leased_ips} if spec else set()
    return str(shared["metadata"]["name"]) in names


def _judged(book: RuleBook, objects: Sequence[dict[str, Any]], spec: LeaseSpec | None) -> Iterator[Violation]:
    """Pods of a controller are judged apart, beside their accounts, since they are no part of the stack."""
    facts, form = (facts_of(spec), spec.form) if spec else (None, _form(objects))
    pods = [each for each in objects if each["kind"] == POD.kind and each["metadata"].get("ownerReferences")]
    others = [each for each in objects if each not in pods and not _is_default_account(each)]
    yield from book.judge(map(declared, others), form=form, lease=facts)
    accounts = [each for each in others if each["kind"] in _OF_ACCOUNTS]
    judged = book.judge(map(declared, [*pods, *accounts]), form=form)
    yield from (each for each in judged if each.object.startswith(f"{POD.kind} "))


def _is_default_account(obj: Mapping[str, Any]) -> bool:
    return str(obj["kind"]) == "ServiceAccount" and str(obj["metadata"]["name"]) == _DEFAULT_ACCOUNT


def _form(objects: Iterable[Manifest]) -> int:
    """The form that the namespace says; the first one without a label."""
    for each in objects:
        if each.get("kind") == NAMESPACE.kind:
            text = str((each["metadata"].get("labels") or {}).get(FORM_LABEL, ""))
            return int(text) if text.isdigit() else FIRST_FORM
    return FIRST_FORM
