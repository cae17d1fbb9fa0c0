"""The removal of a demo's objects from the user's cluster, with a list of those that remain."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devnet.borrowed.claim import claimant, release
from devnet.borrowed.plan import ADMISSION, CLAIM, CLUSTER_ROLE, CRDS, Plan
from devnet.errors import ClusterUnusable, DevnetError, NotGivenBack
from devnet.kube_api import KubeApi

__all__ = ["KUBECONFIG", "give_back", "give_back_earlier"]

KUBECONFIG = "cluster.kubeconfig"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "apis/admissionregistration.k8s.io/v1"
_POLL_S = 0.5
_NAMESPACES_S, _DEFINITIONS_S = 120.0, 60.0
Line = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Object:
    """One object of a demo. `labelled`: delete the object only if it has Lessor's label."""

    title: str
    path: str
    labelled: bool = True


def give_back(plan: Plan, api: KubeApi, line: Line) -> None:
    """Remove all objects of `plan` and wait until they are gone. Raises `NotGivenBack` with the objects that remain."""
    left: list[str] = []
    shared = _has_claim(plan, api)
    if shared:
        _unlabel(plan, api, left)
    _remove(list(_objects(plan, shared=shared)), api, left, seconds=_NAMESPACES_S)
    if shared:
        _remove(list(_definitions(plan, api, left)), api, left, seconds=_DEFINITIONS_S)
    if not left:  # a Pulumi plugin that outlived its command line may have made objects again
        _remove(list(_objects(plan, shared=shared)), api, left, seconds=_NAMESPACES_S)
    if shared:
        _release(plan, api, left)
    if left:
        raise NotGivenBack(plan.server, left)
    line(f"no object of the demo is left at {plan.server}")


def give_back_earlier(data: Path, line: Line) -> bool:
    """Remove the objects of a killed demo, by the plan in its folder `data`; False if there is no plan."""
    plan = Plan.read(data)
    if plan is None:
        return False
    line(f"the earlier demo {plan.name} was interrupted: removing its objects from {plan.server}")
    give_back(plan, KubeApi(data / KUBECONFIG), line)
    plan.forget(data)
    return True


def _has_claim(plan: Plan, api: KubeApi) -> bool:
    """Whether objects with names that all demos use are this demo's. True without an answer: each attempt to remove one
    then names it.
    """
    try:
        return claimant(api) == plan.name
    except ClusterUnusable:
        return True


def _release(plan: Plan, api: KubeApi, left: list[str]) -> None:
    """Remove the claim after all other objects; while one is left, so is the claim."""
    if left:
        left.append(f"cluster role {CLAIM} (kept until the others are removed)")
        return
    try:
        release(plan, api)
    except ClusterUnusable as error:
        left.append(f"cluster role {CLAIM} ({error})")


def _unlabel(plan: Plan, api: KubeApi, left: list[str]) -> None:
    for node in plan.nodes:
        try:
            api.merge(f"api/v1/nodes/{node}", {"metadata": {"labels": {"akash.network": None}}})
        except DevnetError as error:
            left.append(f"the label akash.network on node {node} ({error})")


def _objects(plan: Plan, *, shared: bool) -> Iterator[_Object]:
    """The objects of the plan; `shared`: also those whose names every demo uses."""
    for name in plan.leases:
        yield _Object(f"namespace {name}", f"api/v1/namespaces/{name}", labelled=False)
    for name in (plan.records, plan.services):
        yield _Object(f"namespace {name}", f"api/v1/namespaces/{name}")
    if shared:
        yield _Object(f"cluster role binding {CLUSTER_ROLE}", f"{_RBAC}/clusterrolebindings/{CLUSTER_ROLE}")
        yield _Object(f"cluster role {CLUSTER_ROLE}", f"{_RBAC}/clusterroles/{CLUSTER_ROLE}")
        for kind, plural in (("policy binding", "policybindings"), ("policy", "policies")):
            path = f"{_ADMISSION}/validatingadmission{plural}/{ADMISSION}"
            yield _Object(f"validating admission {kind} {ADMISSION}", path)
    yield _Object(f"ingress class {plan.name}", f"apis/networking.k8s.io/v1/ingressclasses/{plan.name}")


def _definitions(plan: Plan, api: KubeApi, left: list[str]) -> Iterator[_Object]:
    """The custom resource definitions that have no objects of another provider; the others are added to `left`."""
    for plural in CRDS:
        name = f"{plural}.akash.network"
        try:
            others = [
                item for item in api.items(f"apis/akash.network/v2beta2/{plural}") if _namespace(item) != plan.records
            ]
        except ClusterUnusable as error:
            left.append(f"custom resource definition {name} ({error})")
            continue
        if others:
            left.append(f"custom resource definition {name}: {len(others)} object(s) of another provider")
        else:
            path = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            yield _Object(f"custom resource definition {name}", path)


def _namespace(item: dict[str, dict[str, str]]) -> str:
    return item["metadata"].get("namespace", "")


def _remove(objects: Sequence[_Object], api: KubeApi, left: list[str], *, seconds: float) -> None:
    """Request every deletion, then wait for all of them."""
    remaining = [each for each in objects if _deletion_begun(each, api, left)]
    deadline = time.monotonic() + seconds
    while remaining and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        remaining = [each for each in remaining if _exists(each, api)]
    left += [f"{each.title} (still there after {seconds:.0f} s)" for each in remaining]


def _deletion_begun(target: _Object, api: KubeApi, left: list[str]) -> bool:
    """Request the deletion; False if there is no such object, or if it cannot be deleted and is added to `left`."""
    try:
        found = api.get(target.path)
        if found is None:
            return False
        if target.labelled and (found["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "lessor":
            left.append(f"{target.title}: Lessor's label is missing, so the object was not deleted")
            return False
        return api.delete(target.path)
    except ClusterUnusable as error:
        left.append(f"{target.title} ({error})")
        return False


def _exists(target: _Object, api: KubeApi) -> bool:
    try:
        return api.get(target.path) is not None
    except ClusterUnusable:
        return True
