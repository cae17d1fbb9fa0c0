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
from provider.protocols.cluster import DEPLOYMENT, NODE, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Kind

__all__ = ["EVENT", "Health", "check_health"]

EVENT = Kind("v1", "Event", "events")
_UNSCHEDULED = "FailedScheduling"
_CLAIM = "volume claim "
_NO_CAUSE = ("Error: ErrImagePull", "Error: ImagePullBackOff")
"""Warnings that follow the one with the cause."""


@dataclass(frozen=True, slots=True)
class Health:
    """`missing`: workloads of the spec that do not exist. `waiting`: a text for each service whose pods are still those
    of an older version; `unready`: one for each other with too few ready replicas. `of_the_tenant`: the
    applications alone are the cause, and their pods were seen. `stuck`: pods for which a StatefulSet waits in vain, see
    `_stuck`. `creating`: some pod is being created or is still to be made; only events say what prevents that, and no
    watch follows events.
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


@dataclass(slots=True)
class _Pods:
    """The pods of one service. `unmade`: how many its controller has not made. `warning`: why not, as far as an event
    says it.
    """

    troubles: list[PodTrouble]
    unmade: int
    warning: str = ""

    @property
    def creating(self) -> bool:
        return self.unmade > 0 or any(trouble.waits for trouble in self.troubles)

    @property
    def unexplained(self) -> bool:
        return self.unmade > 0 or any(trouble.unexplained for trouble in self.troubles)


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
    seen = await _pods(cluster, spec, shorts)
    texts = [(short.rolling, _text(short, seen[short.service.name])) for short in shorts]
    return Health(
        missing,
        tuple(text for rolling, text in texts if rolling),
        tuple(text for rolling, text in texts if not rolling),
        all(_of_the_tenant(pods.troubles) for pods in seen.values()),
        tuple(pod for short in shorts for pod in _stuck(short, seen[short.service.name].troubles)),
        any(pods.creating for pods in seen.values()),
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


def _text(short: _Short, pods: _Pods) -> str:
    count, name = short.service.count, short.service.name
    if short.rolling:
        head = f"service {name}: {short.updated} of {count} pods updated"
    else:
        head = f"service {name}: {short.ready} of {count} ready"
    why = first(pods.troubles) or _of_workload(short.workload) or pods.warning
    return f"{head}; {why}" if why else head


def _of_workload(workload: Mapping[str, Any]) -> str:
    """A Deployment's message when its pods cannot be made: a quota, a webhook or pod security refuses them."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    messages = (
        c.get("message", "") for c in conditions if c.get("type") == "ReplicaFailure" and c.get("status") == "True"
    )
    return " ".join(next(filter(None, messages), "").split())[:240]


def _of_the_tenant(troubles: Sequence[PodTrouble]) -> bool:
    return bool(troubles) and all(trouble.of_the_tenant for trouble in troubles)


async def _pods(cluster: Cluster, spec: LeaseSpec, shorts: Sequence[_Short]) -> Mapping[str, _Pods]:
    """The pods of each short service by its name, with what nodes and events add to their own states."""
    found: dict[str, list[PodTrouble]] = {short.service.name: [] for short in shorts}
    living = dict.fromkeys(found, 0)
    for pod in await cluster.list(POD, namespace=spec.namespace, labels=MANAGED):
        service = (pod["metadata"].get("labels") or {}).get(MANIFEST_SERVICE, "")
        if service in found:
            trouble = pod_trouble(pod)
            living[service] += trouble is None or not trouble.over
            found[service] += [] if trouble is None else [trouble]
    silent = await _silent_nodes(cluster, {trouble.node for troubles in found.values() for trouble in troubles} - {""})
    seen = {}
    for short in shorts:
        service = short.service
        troubles = [_of_its_node(trouble, silent, service) for trouble in _present(found[service.name])]
        seen[service.name] = _Pods(troubles, service.count - living[service.name])
    if any(pods.unexplained for pods in seen.values()):
        warnings = _warnings(await cluster.list(EVENT, namespace=spec.namespace))
        for short in shorts:
            _explain(seen[short.service.name], short, warnings)
    return seen


def _present(troubles: Sequence[PodTrouble]) -> Sequence[PodTrouble]:
    """Without pods that have ended for good, unless there are no others: such a pod may stay beside its successor for
    ever.
    """
    return [trouble for trouble in troubles if not trouble.over] or troubles


async def _silent_nodes(cluster: Cluster, names: Iterable[str]) -> Mapping[str, str]:
    """Node → what is wrong with it. When a node goes silent, its pods keep the state that it reported last."""
    found = {}
    for name in sorted(names):
        node = await cluster.get(NODE, name)
        conditions = ((node or {}).get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((item for item in conditions if item.get("type") == "Ready"), {})
        if node is None:
            found[name] = f"node {name} is gone"
        elif ready.get("status") == "Unknown":
            since = ready.get("lastTransitionTime")
            found[name] = f"node {name} does not report{f' since {since}' if since else ''}"
        elif ready.get("status") != "True":
            found[name] = " ".join(f"node {name} is not ready: {ready.get('message') or ''}".split()).rstrip(": ")
    return found


def _of_its_node(trouble: PodTrouble, silent: Mapping[str, str], service: ServiceSpec) -> PodTrouble:
    """The trouble of a pod on a silent node is the node's."""
    if trouble.node not in silent:
        return trouble
    wait = "; its volume is there, and the pod starts when the node returns or is deleted" if service.persistent else ""
    text = shortened(f"pod {trouble.pod} {Trouble.NODE}: {silent[trouble.node]}{wait}")
    return replace(trouble, kind=Trouble.NODE, text=text)


def _explain(pods: _Pods, short: _Short, warnings: Mapping[str, str]) -> None:
    pods.troubles = [_explained(trouble, warnings) for trouble in pods.troubles]
    if pods.unmade > 0:
        pods.warning = shortened(" ".join(warnings.get(str(short.workload["metadata"].get("uid")), "").split()))


def _warnings(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The last warning about each pod and each StatefulSet, by its uid: a StatefulSet's pods have the names of their
    predecessors. A StatefulSet says in events alone that its pods cannot be made. The last warning about each volume
    claim, by the claim's name: the storage says there why it makes no volume.

    Warnings of the scheduler are left out. A pod that waits for a node says so in its conditions, and the warning stays
    when the pod has got its node.
    """
    warnings = (event for event in events if event.get("type") == "Warning" and event.get("reason") != _UNSCHEDULED)
    warnings = (event for event in warnings if event.get("message") not in _NO_CAUSE)
    about = ((event.get("involvedObject") or {}, event) for event in sorted(warnings, key=_seen_at))
    return {
        _subject(obj): f"{event.get('reason', '')}: {event.get('message', '')}" for obj, event in about if _subject(obj)
    }


def _subject(obj: Mapping[str, Any]) -> str:
    match obj.get("kind"):
        case POD.kind | STATEFUL_SET.kind:
            return str(obj.get("uid") or "")
        case PERSISTENT_VOLUME_CLAIM.kind:
            return f"{_CLAIM}{obj.get('name') or ''}"
    return ""


def _seen_at(event: Mapping[str, Any]) -> str:
    """When the event was seen last: one of events.k8s.io has no lastTimestamp, and its series only once it repeats."""
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    found = next(filter(None, times), None) or event["metadata"].get("creationTimestamp") or ""
    return str(found).removesuffix("Z")  # so that a whole second sorts before its fractions


def _explained(trouble: PodTrouble, warnings: Mapping[str, str]) -> PodTrouble:
    claims = [key for key in sorted(warnings) if key.startswith(_CLAIM) and key.endswith(f"-{trouble.pod}")]
    said = warnings.get(trouble.uid) or "; ".join(f"{key}: {warnings[key]}" for key in claims)
    if not trouble.unexplained or not said:
        return trouble
    return replace(trouble, text=shortened(" ".join(f"{trouble.text}: {said}".split())))
