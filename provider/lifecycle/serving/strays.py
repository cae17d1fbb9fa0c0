"""Objects in a lease's namespace that say they are ours and that its stack does not know: what another builder made
under another name, of which the state was lost. An old network policy would still open what a new one closes.

Looked for once a namespace, after a start, and only when the stack is known to be complete. Network policies alone are
deleted: without one nothing is open that the stack does not open itself. All else is reported and stays, because it may
serve what runs (a template that is kept as found names an older Secret, a tenant's clients an older Service).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.drift import ALWAYS_WATCHED, HTTP_ROUTE, NETWORK_POLICY
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, STATEFUL_SET, Kind

__all__ = ["remove_strays"]

_log = structlog.get_logger(__name__)


async def remove_strays(cluster: Cluster, spec: LeaseSpec, *, gateway_api: bool) -> tuple[str, ...]:
    """Delete those that only open the network; a text for each other one. Raises `ClusterError`."""
    wanted = {(obj["kind"], obj["metadata"]["name"]) for obj in lease_objects(spec)}
    left = []
    for kind in (*ALWAYS_WATCHED, DEPLOYMENT, STATEFUL_SET, *((HTTP_ROUTE,) if gateway_api else ())):
        for obj in await cluster.list(kind, namespace=spec.namespace, labels=MANAGED):
            name = obj["metadata"]["name"]
            if (kind.kind, name) in wanted or not _of_this_lease(obj, spec):
                continue
            if kind is NETWORK_POLICY:
                await _remove(cluster, spec, kind, name)
            else:
                left.append(f"{kind.kind} {name} is no part of this lease's stack: it stays until it is deleted")
    return tuple(left)


async def _remove(cluster: Cluster, spec: LeaseSpec, kind: Kind, name: str) -> None:
    _log.warning("lifecycle.stray_removed", lease=str(spec.lease), kind=kind.kind, name=name)
    await cluster.delete(kind, name, namespace=spec.namespace)


def _of_this_lease(obj: Mapping[str, Any], spec: LeaseSpec) -> bool:
    """Not going already, not a controller's (which copy labels onto what they make), and not labelled with another
    lease: that would be somebody's mistake, not a stray.
    """
    if obj["metadata"].get("deletionTimestamp") or obj["metadata"].get("ownerReferences"):
        return False
    return lease_of(obj) in (None, spec.lease)
