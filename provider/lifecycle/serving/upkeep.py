"""The upkeep of a stack that is what it should be: claims that it does not use, drift, strays, missing workloads,
health.

A stray is an object in the lease's namespace with this provider's labels that the stack does not know: another builder
made it under another name, and the state of that stack was lost. An old network policy would still open what a new one
closes. Strays are searched for once a namespace, after a start, and only when the stack is known to be complete.
Network policies alone are deleted: without one nothing is open that the stack does not open itself. All else is
reported and stays, because it may serve what runs (a template that is kept as found names an older Secret, a tenant's
clients an older Service).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.drift import ALWAYS_WATCHED, NETWORK_POLICY, find_drift, remove_additions
from provider.lifecycle.health.edges import edge_troubles
from provider.lifecycle.health.workloads import Health, check_health
from provider.lifecycle.serving.rollouts import pending
from provider.lifecycle.serving.update import update
from provider.lifecycle.serving.upgrade import outdated
from provider.lifecycle.serving.view import LeaseView
from provider.lifecycle.state import Outcome, Phase
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, HTTP_ROUTE, POD, STATEFUL_SET, Kind
from stacks.common import mask

__all__ = ["ADOPTED", "PENDING", "keep_up"]

ADOPTED = "adopted: as another provider made it until the tenant sends a manifest or the lease is recreated"

PENDING = "changed when the tenant sends a manifest or the lease is recreated: "
"""Another builder made what runs; the services and paths follow this text."""

_CREATING_S = 10.0
"""Between two checks of pods that are being created: a warning about one comes as an event, after the pod's state."""
_MOVING_S = 1.0
"""Between two checks whether the edge serves a hostname that is migrating to the lease."""
_log = structlog.get_logger(__name__)


async def keep_up(view: LeaseView, spec: LeaseSpec) -> Outcome:
    """Give back what the stack does not use, and check whether its objects are there and ready."""
    attempt = view.applied.attempt
    if (attempt is not None or view.applied.anew) and not view.goes_back:
        await view.write(replace(view.applied, attempt=None, anew=False))
    if not view.goes_back and not await view.parts.claims.match(spec):
        await view.parts.claims.keep_only(spec, moves=view.newest.moves)
    strays = await _strays(view, spec)
    drift = await _drift(view, spec)
    if view.parts.config.repair_drift and view.drift.worth_repairing and not view.applied.as_found:
        return await _repair(view, spec, drift)
    health = await check_health(view.parts.cluster, spec)
    if health.missing and view.parts.config.repair_drift:
        return await update(view, spec, repair=f"{', '.join(health.missing)} missing")
    for pod in health.stuck:
        await view.parts.cluster.delete(POD, pod, namespace=spec.namespace)
    edges = await edge_troubles(view.parts.cluster, spec)
    outcome = _outcome(view, health, edges, drift=mask("; ".join((*drift, *strays)), spec))
    return await _end_moves(view, outcome, runs=not _short(health, edges))


async def _end_moves(view: LeaseView, outcome: Outcome, *, runs: bool) -> Outcome:
    """End the migrations that what runs has completed, whatever became of a newer version. One that goes on is checked
    again soon.
    """
    if not view.newest.moves or view.target is None:
        return outcome
    what_runs = replace(view.newest, spec=view.target)
    if not (going_on := await view.parts.claims.end_moves(what_runs, runs=runs)):
        return outcome
    remark = "; ".join(going_on)
    reason = "; ".join(filter(None, (outcome.reason, remark)))
    return replace(outcome, reason=reason, remark=remark, again_in=min(_MOVING_S, outcome.again_in or _MOVING_S))


async def _strays(view: LeaseView, spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each stray that stays; network policies among them are removed where drift is repaired."""
    config = view.parts.config
    if outdated(spec) or view.applied.as_found or not config.repair_drift:
        return ()
    if view.drift.strays is None:
        view.drift.strays = await _remove_strays(view.parts.cluster, spec, gateway_api=config.gateway_api)
    return view.drift.strays


async def _repair(view: LeaseView, spec: LeaseSpec, drift: tuple[str, ...]) -> Outcome:
    """Remove what was added, which the engine does not see, then let the engine restore the rest."""
    await remove_additions(view.parts.cluster, spec)
    outcome = await update(view, spec, repair=mask("; ".join(drift), spec))
    if not outcome.retry:
        view.drift.repair_ended()
    return outcome


async def _drift(view: LeaseView, spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each object that differs. Objects are compared only when a watch reports a change, and once after a
    start. What another builder made cannot be compared with what this builder would make.
    """
    drift = view.drift
    if outdated(spec):
        return ()
    if drift.compared:
        return drift.left
    drift.compared = True  # before the objects are read, so that a change meanwhile asks for another comparison
    try:
        found = await find_drift(view.parts.cluster, spec)
    except BaseException:
        drift.compared = False
        raise
    drift.found(found)
    return found


def _outcome(view: LeaseView, health: Health, edges: tuple[str, ...], *, drift: str) -> Outcome:
    left = f"not as applied: {drift}" if drift else ""
    waiting, unready = ("; ".join(texts) for texts in (health.waiting, (*health.unready, *edges)))
    missing = f"missing: {', '.join(health.missing)}" if health.missing else ""
    spec = view.target or view.newest.spec
    reason = mask("; ".join(filter(None, (view.refused, waiting, unready, missing, left))), spec)
    short = _short(health, edges)
    tenant = health.of_the_tenant and not missing and not edges
    if view.goes_back:
        phase = Phase.BLOCKED if view.blocked else Phase.UPDATE_FAILED
        return Outcome(phase, reason, of_the_provider=short and not tenant)
    again_in = _CREATING_S if health.creating else None
    if waiting:
        return Outcome(Phase.APPLYING, reason, again_in=again_in, of_the_provider=not tenant)
    if short:
        return Outcome(Phase.DEGRADED, reason, again_in=again_in, of_the_tenant=tenant, of_the_provider=not tenant)
    kept = f"{PENDING}{'; '.join(waits)}" if (waits := pending(spec)) else ""
    adopted = ADOPTED if view.applied.as_found else ""
    return Outcome(Phase.RUNNING, "; ".join(filter(None, (reason, kept, adopted))))


def _short(health: Health, edges: tuple[str, ...]) -> bool:
    """Whether something of the version that runs is not there or not ready."""
    return bool(health.waiting or health.unready or health.missing or edges)


async def _remove_strays(cluster: Cluster, spec: LeaseSpec, *, gateway_api: bool) -> tuple[str, ...]:
    """Delete stray network policies, which only open the network; a text for each other stray. Raises
    `ClusterError`.
    """
    wanted = {(obj["kind"], obj["metadata"]["name"]) for obj in lease_objects(spec)}
    left = []
    for kind in (*ALWAYS_WATCHED, DEPLOYMENT, STATEFUL_SET, *((HTTP_ROUTE,) if gateway_api else ())):
        for obj in await cluster.list(kind, namespace=spec.namespace, labels=MANAGED):
            name = obj["metadata"]["name"]
            if (kind.kind, name) in wanted or not _of_this_lease(obj, spec):
                continue
            if kind is NETWORK_POLICY:
                await _remove_stray(cluster, spec, kind, name)
            else:
                left.append(f"{kind.kind} {name} is no part of this lease's stack: it stays until it is deleted")
    return tuple(left)


async def _remove_stray(cluster: Cluster, spec: LeaseSpec, kind: Kind, name: str) -> None:
    _log.warning("lifecycle.stray_removed", lease=str(spec.lease), kind=kind.kind, name=name)
    await cluster.delete(kind, name, namespace=spec.namespace)


def _of_this_lease(obj: Mapping[str, Any], spec: LeaseSpec) -> bool:
    """False for an object that is being deleted, for one that a controller made (controllers copy labels onto what they
    make), and for one that is labelled with another lease: that is somebody's mistake, not a stray.
    """
    if obj["metadata"].get("deletionTimestamp") or obj["metadata"].get("ownerReferences"):
        return False
    return lease_of(obj) in (None, spec.lease)
