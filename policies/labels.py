"""Labels: a lease's objects carry the lease's own labels, and none by which another part of the cluster acts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.pods import at, pod_metadata, pod_of
from policies.rules import Check, ObjectProblem, Objects, Rule, RuleScope, fence

__all__ = ["RULES", "known_labels"]

_KNOWN = frozenset(
    {
        "akash.network",
        "akash.network/lease.id.dseq",
        "akash.network/lease.id.gseq",
        "akash.network/lease.id.oseq",
        "akash.network/lease.id.owner",
        "akash.network/lease.id.provider",
        "akash.network/manifest-service",
        "akash.network/manifest.resource.version",
        "akash.network/namespace",
        "akash.network/objects-form",
        "akash.network/service-target",
        "akash.network/sharing-key-hash",
        "pod-security.kubernetes.io/enforce",
    }
)
_NAMESPACE = "akash.network/namespace"
_ID = "akash.network/lease.id."


def _known(more: Sequence[str]) -> Check:
    known = _KNOWN | set(more)

    def check(objects: Objects) -> Iterator[ObjectProblem]:
        for manifest in objects if objects.lease_namespaces else ():
            if objects.is_kept(manifest):
                continue
            for meta in (at(manifest, "metadata"), pod_metadata(manifest)):
                for key in at(meta, "labels"):
                    if key not in known:
                        yield ObjectProblem(manifest, f"label {str(key)[:200]} is not one of a lease")

    return check


def known_labels(more: Sequence[str]) -> Rule:
    """The rule `known-labels` with keys of the operator beside the known ones."""
    return fence(
        "known-labels",
        _known(more),
        reason="Policies, meshes, admission and edges choose their objects by labels.",
        remedy="Remove the label, or allow its key (labels.allow).",
        scope=RuleScope.STACK,
    )


def _own(objects: Objects) -> Iterator[ObjectProblem]:
    """Labels that name a lease name this one."""
    spaces = list(objects.of_kinds("Namespace")) if objects.lease_namespaces else []
    if len(spaces) != 1:
        return
    meta = at(spaces[0], "metadata")
    own = {str(key): value for key, value in at(meta, "labels").items() if str(key).startswith(_ID)}
    own[_NAMESPACE] = meta.get("name")
    for manifest in objects:
        for labels in _all_labels(manifest):
            for key in own.keys() & labels.keys():
                if labels[key] != own[key] and not _shared(manifest, key):
                    yield ObjectProblem(manifest, f"label {key} is {str(labels[key])[:100]} and not {own[key]}")


def _all_labels(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield at(manifest, "metadata", "labels")
    yield at(pod_metadata(manifest), "labels")
    yield at(manifest, "spec", "selector", "matchLabels")


def _shared(manifest: Mapping[str, Any], key: str) -> bool:
    """An address pool has its own rule about its owner."""
    return manifest.get("kind") in ("IPAddressPool", "L2Advertisement") and key == f"{_ID}owner"


def _selected(objects: Objects) -> Iterator[ObjectProblem]:
    """A workload selects its own pods: a selector without them would adopt or delete another's."""
    for workload in objects.of_kinds("Deployment", "StatefulSet") if objects.lease_namespaces else ():
        wanted = at(workload, "spec", "selector", "matchLabels")
        labels = at(pod_metadata(workload), "labels")
        if not wanted or "matchExpressions" in at(workload, "spec", "selector"):
            yield ObjectProblem(workload, "its selector is not a list of labels")
        elif pod_of(workload) and any(labels.get(key) != value for key, value in wanted.items()):
            yield ObjectProblem(workload, "its selector does not select its own pods")


RULES = (
    known_labels(()),
    fence(
        "own-labels",
        _own,
        reason="The lease loop, the policies and the operators find a lease's objects by these labels.",
        remedy="Use the labels of the lease.",
        scope=RuleScope.STACK,
    ),
    fence(
        "own-selector",
        _selected,
        reason="A workload adopts the pods that its selector names.",
        remedy="Select the labels of the workload's own pods.",
        scope=RuleScope.STACK,
    ),
)
