"""The health of a lease's workloads: whether they run, and if not why, in a text for operator and tenant.

A workload that is not ready right after a change is an update that waits for something; later it is degraded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.labels import MANIFEST_SERVICE
from lease.spec import LeaseSpec, ServiceSpec
from provider.kube.labels import MANAGED
from provider.lifecycle.health.pods import PodTrouble, Trouble, first, pod_trouble, shortened
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, POD, STATEFUL_SET, Kind

__all__ = ["EVENT", "Health", "check_health"]

EVENT = Kind("v1", "Event", "events")
_UNEXPLAINED = frozenset({Trouble.CREATING})
_UNSCHEDULED = "FailedScheduling"


@dataclass(frozen=True, slots=True)
class Health:
    """`missing`: workloads of the spec that do not exist. `waiting`: a text for each service whose pods are still those
    of an older version; `unready`: one for each other with too few ready replicas. `of_the_tenant`: the
    applications alone are the cause, and their pods were seen. `stuck`: pods for which a StatefulSet waits in vain, see
    `_stuck`. `creating`: some pod is being created; only events say what prevents that, and no watch follows events.
    """

    missing: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    of_the_tenant: bool = False
    stuck: tuple[str, ...] = ()
    creating: bool = False


@dataclass(frozen=True, slots=True)
class _Short:
    """A service with fewer ready replicas than rented."""

    service: ServiceSpec
    workload: Mapping[str, Any]
    ready: int
    updated: int
    rolling: bool


async def check_health(cluster: Cluster, spec: LeaseSpec) -> Health:
    """Compare workloads with the spec: Deployments by availableReplicas, StatefulSets by readyReplicas.

    The Go provider counts a StatefulSet's currentReplicas, healthy before its pods are ready: a defect not kept. Pods
    are read only when something is short. Raises `ClusterError`.
    """
    workloads = await _workloads(cluster, spec)
    missing = tuple(service.name for service in spec.services if service.name not in workloads)
    found = (_short(service, workloads[service.name]) for service in spec.services if service.name in workloads)
    shorts = [short for short in found if short is not None]
    if not shorts:
        return Health(missing)
    troubles = await _troubles(cluster, spec, shorts)
    texts = [(short.rolling, _text(short, troubles[short.service.name])) for short in shorts]
    return Health(
        missing,
        tuple(text for rolling, text in texts if rolling),
        tuple(text for rolling, text in texts if not rolling),
        all(_of_the_tenant(troubles[short.service.name]) for short in shorts),
        tuple(pod for short in shorts for pod in _stuck(short, troubles[short.service.name])),
        any(trouble.kind in _UNEXPLAINED for found in troubles.values() for trouble in found),
    )


def _stuck(short: _Short, troubles: Iterable[PodTrouble]) -> list[str]:
    """Broken pods of an older template. A StatefulSet replaces such a pod only when it is ready, which never happens: a
    bad image would stay although the tenant has sent a good one.
    """
    newest = (short.workload.get("status") or {}).get("updateRevision")
    if not short.service.persistent or not newest:
        return []
    return [trouble.pod for trouble in troubles if trouble.broken and trouble.revision not in ("", newest)]


async def _workloads(cluster: Cluster, spec: LeaseSpec) -> dict[str, dict[str, Any]]:
    """The workloads by service name; only kinds that the spec has are listed."""
    found = {}
    for persistent in sorted({service.persistent for service in spec.services}):
        kind = STATEFUL_SET if persistent else DEPLOYMENT
        names = {service.name for service in spec.services if service.persistent == persistent}
        for obj in await cluster.list(kind, namespace=spec.namespace):
            if obj["metadata"]["name"] in names and not obj["metadata"].get("deletionTimestamp"):
                found[obj["metadata"]["name"]] = obj
    return found


def _short(service: ServiceSpec, workload: Mapping[str, Any]) -> _Short | None:
    """The service when too few replicas are ready, else None. While the controller has not seen the newest generation,
    its status is that of the old one, and no replica counts as ready.
    """
    status, generation = workload.get("status") or {}, int(workload["metadata"].get("generation") or 0)
    seen = int(status.get("observedGeneration") or 0) >= generation
    field = "readyReplicas" if service.persistent else "availableReplicas"
    ready, updated = (int(status.get(name) or 0) if seen else 0 for name in (field, "updatedReplicas"))
    rolling = generation > 1 and (not seen or updated < service.count)
    if ready >= service.count and not rolling:
        return None
    return _Short(service, workload, ready, updated, rolling)


def _text(short: _Short, troubles: Sequence[PodTrouble]) -> str:
    count, name = short.service.count, short.service.name
    if short.rolling:
        head = f"service {name}: {short.updated} of {count} pods updated"
    else:
        head = f"service {name}: {short.ready} of {count} ready"
    why = first(troubles) or _of_workload(short.workload)
    return f"{head}; {why}" if why else head


def _of_workload(workload: Mapping[str, Any]) -> str:
    """The controller's message when it cannot make the pods: a quota or a webhook refuses them."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    messages = (
        c.get("message", "") for c in conditions if c.get("type") == "ReplicaFailure" and c.get("status") == "True"
    )
    return " ".join(next(filter(None, messages), "").split())[:240]


def _of_the_tenant(troubles: Sequence[PodTrouble]) -> bool:
    return bool(troubles) and all(trouble.of_the_tenant for trouble in troubles)


async def _troubles(cluster: Cluster, spec: LeaseSpec, shorts: Iterable[_Short]) -> Mapping[str, list[PodTrouble]]:
    """The troubles of each short service by its name. The events of a pod explain what its status does not."""
    found: dict[str, list[PodTrouble]] = {short.service.name: [] for short in shorts}
    for pod in await cluster.list(POD, namespace=spec.namespace, labels=MANAGED):
        service = (pod["metadata"].get("labels") or {}).get(MANIFEST_SERVICE, "")
        trouble = pod_trouble(pod)
        if service in found and trouble is not None:
            found[service].append(trouble)
    if any(trouble.kind in _UNEXPLAINED for troubles in found.values() for trouble in troubles):
        warnings = _warnings(await cluster.list(EVENT, namespace=spec.namespace))
        return {name: [_explained(trouble, warnings) for trouble in troubles] for name, troubles in found.items()}
    return found


def _warnings(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The last warning about each pod, by the pod's uid: a StatefulSet's pods have the names of their predecessors.

    Warnings of the scheduler are left out. A pod that waits for a node says so in its conditions, and the warning stays
    when the pod has got its node.
    """
    warnings = (event for event in events if event.get("type") == "Warning" and event.get("reason") != _UNSCHEDULED)
    about = ((event.get("involvedObject") or {}, event) for event in sorted(warnings, key=_seen_at))
    return {
        str(pod["uid"]): f"{event.get('reason', '')}: {event.get('message', '')}"
        for pod, event in about
        if pod.get("kind") == POD.kind and pod.get("uid")
    }


def _seen_at(event: Mapping[str, Any]) -> str:
    """When the event was seen last: one of events.k8s.io has no lastTimestamp, and its series only once it repeats."""
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    found = next(filter(None, times), None) or event["metadata"].get("creationTimestamp") or ""
    return str(found).removesuffix("Z")  # so that a whole second sorts before its fractions


def _explained(trouble: PodTrouble, warnings: Mapping[str, str]) -> PodTrouble:
    if trouble.kind not in _UNEXPLAINED or trouble.uid not in warnings:
        return trouble
    text = shortened(" ".join(f"{trouble.text}: {warnings[trouble.uid]}".split()))
    return replace(trouble, text=text)
