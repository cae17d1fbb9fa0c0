"""Checks of the user's cluster before the demo makes anything there: existing providers, and the user's rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from devnet.borrowed.claim import claimant
from devnet.borrowed.plan import ADMISSION, CLAIM, CLUSTER_ROLE, CRDS
from devnet.errors import ClusterUnusable
from devnet.kube_api import KubeApi

__all__ = ["nodes_to_label", "refuse_provider", "refuse_without_rights"]

_DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ROLE = f"apis/rbac.authorization.k8s.io/v1/clusterroles/{CLUSTER_ROLE}"
_POLICY = f"apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{ADMISSION}"
_NEEDED = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("", "namespaces"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("networking.k8s.io", "ingressclasses"),
)


def refuse_provider(api: KubeApi) -> None:
    """Raise `ClusterUnusable` if the cluster has objects of an Akash provider or of an earlier demo."""
    objects = list(_provider_objects(api))
    if objects:
        raise ClusterUnusable(
            f"{api.server} has objects of an Akash provider: {'; '.join(objects)}. A demo could change or remove them, "
            "so nothing was made. Choose another cluster by --kubeconfig or --context. If the objects are those of an "
            "earlier demo, start the demo with its --data folder, which removes them first."
        )


def _provider_objects(api: KubeApi) -> Iterator[str]:
    for plural in CRDS:
        found = api.get(f"{_DEFINITIONS}/{plural}.akash.network")
        if found:
            versions = [each["name"] for each in found["spec"]["versions"] if each.get("served")]
            count = len(api.items(f"apis/akash.network/{versions[0]}/{plural}")) if versions else 0
            yield f"custom resource definition {plural}.akash.network with {count} object(s)"
    if api.get(_ROLE):
        yield f"cluster role {CLUSTER_ROLE}"
    if api.get(_POLICY):
        yield f"validating admission policy {ADMISSION}"
    if name := claimant(api):
        yield f"cluster role {CLAIM} of the demo {name}"
    tenants = [item["metadata"]["name"] for item in api.items("api/v1/namespaces?labelSelector=akash.network%3Dtrue")]
    if tenants:
        yield f"namespace(s) {', '.join(tenants[:3])}{' …' if len(tenants) > 3 else ''}"


def refuse_without_rights(api: KubeApi, *, nodes: bool) -> None:
    """Raise `ClusterUnusable` if this user may not create or delete the objects of a demo. `nodes`: nor label nodes."""
    asked = [(verb, *what) for what in _NEEDED for verb in ("create", "delete")]
    asked += [("patch", "", "nodes")] if nodes else []
    refused = [f"{verb} {resource}" for verb, group, resource in asked if not _may(api, verb, group, resource)]
    if refused:
        raise ClusterUnusable(f"the kubeconfig's user may not {', '.join(refused)} at {api.server}")


def _may(api: KubeApi, verb: str, group: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}},
    }
    return bool(api.create("apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"].get("allowed"))


def nodes_to_label(api: KubeApi) -> tuple[str, ...]:
    """The node to label so that tenants' pods can run; () if a usable node has the label already."""
    usable = [node for node in api.items("api/v1/nodes") if _takes_pods(node)]
    if not usable:
        raise ClusterUnusable(f"{api.server} has no node that is ready, schedulable and without taints")
    if any((node["metadata"].get("labels") or {}).get("akash.network") == "true" for node in usable):
        return ()
    return (min(str(node["metadata"]["name"]) for node in usable),)


def _takes_pods(node: Mapping[str, Any]) -> bool:
    spec, conditions = node.get("spec") or {}, (node.get("status") or {}).get("conditions") or []
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    tainted = any(each.get("effect") in ("NoSchedule", "NoExecute") for each in spec.get("taints") or ())
    return ready and not tainted and not spec.get("unschedulable")
