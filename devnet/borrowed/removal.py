"""Give a borrowed cluster back: remove what the plan names, and say what could not be removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from devnet.borrowed.plan import CLUSTER_ROLE, CRDS, Plan
from devnet.errors import ClusterUnusable, DevnetError, NotGivenBack
from devnet.kube_api import KubeApi

__all__ = ["KUBECONFIG", "give_back", "give_back_earlier"]

KUBECONFIG = "cluster.kubeconfig"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
_POLL_SECONDS = 0.5
_NAMESPACES_SECONDS, _DEFINITIONS_SECONDS = 120.0, 60.0
Line = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Thing:
    """One object that a demo makes. `ours`: delete it only with our label on it."""

    told: str
    path: str
    ours: bool = True


def give_back(plan: Plan, api: KubeApi, line: Line) -> None:
    """Remove everything of `plan` and wait until it is gone. Raises `NotGivenBack`, which names what is left."""
    left: list[str] = []
    _unlabel(plan, api, left)
    _remove(list(_first(plan)), api, left, seconds=_NAMESPACES_SECONDS)
    _remove(list(_definitions(plan, api, left)), api, left, seconds=_DEFINITIONS_SECONDS)
    if not left:  # a plugin that outlived its command line may have made something again
        _remove(list(_first(plan)), api, left, seconds=_NAMESPACES_SECONDS)
    if left:
        raise NotGivenBack(plan.server, left)
    line(f"the cluster has nothing of the demo any more ({plan.server})")


def give_back_earlier(data: Path, line: Line) -> bool:
    """Remove what a demo that was killed left in a cluster, by what it wrote in its folder; whether there was any."""
    plan = Plan.read(data)
    if plan is None:
        return False
    line(f"an earlier demo, {plan.name}, was cut short: removing what it made at {plan.server}")
    give_back(plan, KubeApi(data / KUBECONFIG), line)
    plan.forget(data)
    return True


def _unlabel(plan: Plan, api: KubeApi, left: list[str]) -> None:
    for node in plan.nodes:
        try:
            api.merge(f"api/v1/nodes/{node}", {"metadata": {"labels": {"akash.network": None}}})
        except DevnetError as error:
            left.append(f"the label akash.network on node {node} ({error})")


def _first(plan: Plan) -> Iterator[_Thing]:
    for name in plan.leases:
        yield _Thing(f"namespace {name}", f"api/v1/namespaces/{name}", ours=False)
    for name in (plan.records, plan.services):
        yield _Thing(f"namespace {name}", f"api/v1/namespaces/{name}")
    yield _Thing(f"cluster role binding {CLUSTER_ROLE}", f"{_RBAC}/clusterrolebindings/{CLUSTER_ROLE}")
    yield _Thing(f"cluster role {CLUSTER_ROLE}", f"{_RBAC}/clusterroles/{CLUSTER_ROLE}")
    yield _Thing(f"ingress class {plan.name}", f"apis/networking.k8s.io/v1/ingressclasses/{plan.name}")


def _definitions(plan: Plan, api: KubeApi, left: list[str]) -> Iterator[_Thing]:
    """Those without objects of somebody else: who came meanwhile keeps his."""
    for plural in CRDS:
        name = f"{plural}.akash.network"
        try:
            others = [
                item for item in api.items(f"apis/akash.network/v2beta2/{plural}") if _place(item) != plan.records
            ]
        except ClusterUnusable as error:
            left.append(f"custom resource definition {name} ({error})")
            continue
        if others:
            left.append(f"custom resource definition {name}: {len(others)} object(s) of somebody else")
        else:
            path = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            yield _Thing(f"custom resource definition {name}", path)


def _place(item: dict[str, dict[str, str]]) -> str:
    return item["metadata"].get("namespace", "")


def _remove(things: Sequence[_Thing], api: KubeApi, left: list[str], *, seconds: float) -> None:
    """Ask for every deletion, then wait for all."""
    going = [thing for thing in things if _asked(thing, api, left)]
    deadline = time.monotonic() + seconds
    while going and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        going = [thing for thing in going if _is_there(thing, api)]
    left += [f"{thing.told} (still there after {seconds:.0f} s)" for thing in going]


def _asked(thing: _Thing, api: KubeApi, left: list[str]) -> bool:
    """Whether it is going to vanish; what cannot be deleted is added to `left`."""
    try:
        found = api.get(thing.path)
        if found is None:
            return False
        if thing.ours and (found["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "lessor":
            left.append(f"{thing.told}: it lacks our label, somebody changed it")
            return False
        return api.delete(thing.path)
    except ClusterUnusable as error:
        left.append(f"{thing.told} ({error})")
        return False


def _is_there(thing: _Thing, api: KubeApi) -> bool:
    try:
        return api.get(thing.path) is not None
    except ClusterUnusable:
        return True
