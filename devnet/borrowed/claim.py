"""The claim of one demo on a cluster: a cluster role without rules, made before all other objects and removed last.

Demos share the names of custom resource definitions and of the provider's cluster role, so that two demos at once would
remove each other's objects. The API server makes an object of one name once, which decides between the two.
"""

from __future__ import annotations

from devnet.borrowed.plan import CLAIM, Plan
from devnet.errors import ClusterUnusable
from devnet.kube_api import KubeApi

__all__ = ["claim", "claimant", "release"]

_ROLES = "apis/rbac.authorization.k8s.io/v1/clusterroles"
_INSTANCE = "app.kubernetes.io/instance"


def claim(plan: Plan, api: KubeApi) -> None:
    """Make the claim. Raises `ClusterUnusable` if another demo has one."""
    labels = {"app.kubernetes.io/managed-by": "lessor", _INSTANCE: plan.name}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    try:
        api.create(_ROLES, role | {"metadata": {"name": CLAIM, "labels": labels}})
    except ClusterUnusable:
        other = claimant(api)
        if other == plan.name:  # the answer to an earlier attempt was lost
            return
        if other is None:
            raise
        raise ClusterUnusable(
            f"the demo {other} uses {plan.server}, or was killed there, so nothing was made. Wait for its end, or "
            f"start the demo with its --data folder; if that is lost: kubectl delete clusterrole {CLAIM}"
        ) from None


def claimant(api: KubeApi) -> str | None:
    """The name of the demo that has the claim, None if none has it. Raises `ClusterUnusable`."""
    found = api.get(f"{_ROLES}/{CLAIM}")
    return None if found is None else str((found["metadata"].get("labels") or {}).get(_INSTANCE, "(unknown)"))


def release(plan: Plan, api: KubeApi) -> None:
    """Remove the claim, if it is this demo's. Raises `ClusterUnusable`."""
    if claimant(api) == plan.name:
        api.delete(f"{_ROLES}/{CLAIM}")
