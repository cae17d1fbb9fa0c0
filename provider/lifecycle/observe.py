"""What the cluster holds of one lease: its records, its namespace, its workloads. Reading only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.lifecycle.applied import Applied, applied_name, read_applied
from provider.lifecycle.records import ManifestRecord, read_manifest
from provider.operators.objects import DEPLOYMENT, MANIFEST, NAMESPACE, SECRET, STATEFUL_SET
from provider.protocols import Cluster

__all__ = ["Health", "NamespaceState", "Observed", "check_health", "observe", "read_namespace"]


class NamespaceState(StrEnum):
    ABSENT = "absent"
    ACTIVE = "active"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class Observed:
    """`held_by`: why the namespace does not go, in the API server's words."""

    manifest: ManifestRecord | None
    applied: Applied
    namespace: NamespaceState
    held_by: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """`missing`: workloads of the spec that do not exist; `unready`: a text for each with too few ready replicas."""

    missing: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()


async def observe(cluster: Cluster, lease: LeaseId, *, records: str) -> Observed:
    """`records`: their namespace. Raises `ClusterError`, or `BadRecordError` for a record that cannot be read."""
    name = namespace_name(lease)
    manifest = await cluster.get(MANIFEST, name, namespace=records)
    applied = await cluster.get(SECRET, applied_name(lease), namespace=records)
    state, held_by = await read_namespace(cluster, name)
    record = read_manifest(manifest) if manifest is not None else None
    return Observed(record, read_applied(applied), state, held_by)


async def read_namespace(cluster: Cluster, name: str) -> tuple[NamespaceState, str]:
    obj = await cluster.get(NAMESPACE, name)
    if obj is None:
        return NamespaceState.ABSENT, ""
    status = obj.get("status") or {}
    if not obj["metadata"].get("deletionTimestamp") and status.get("phase") != "Terminating":
        return NamespaceState.ACTIVE, ""
    told = (item.get("message", "") for item in status.get("conditions") or () if item.get("status") == "True")
    return NamespaceState.TERMINATING, "; ".join(filter(None, told))


async def check_health(cluster: Cluster, spec: LeaseSpec) -> Health:
    """Compare workloads with the spec: Deployments by availableReplicas, StatefulSets by readyReplicas.

    The Go provider counts a StatefulSet's currentReplicas, healthy before its pods are ready: a defect not kept.
    """
    deployments = await _replicas(cluster, spec, persistent=False)
    stateful_sets = await _replicas(cluster, spec, persistent=True)
    missing, unready = [], []
    for service in spec.services:
        ready = (stateful_sets if service.persistent else deployments).get(service.name)
        if ready is None:
            missing.append(service.name)
        elif ready < service.count:
            unready.append(f"{service.name}: {ready} of {service.count} ready")
    return Health(tuple(missing), tuple(unready))


async def _replicas(cluster: Cluster, spec: LeaseSpec, *, persistent: bool) -> Mapping[str, int]:
    if all(service.persistent != persistent for service in spec.services):
        return {}
    kind, field = (STATEFUL_SET, "readyReplicas") if persistent else (DEPLOYMENT, "availableReplicas")
    objects: list[dict[str, Any]] = await cluster.list(kind, namespace=spec.namespace)
    return {obj["metadata"]["name"]: _current(obj, field) for obj in objects if _alive(obj)}


def _current(obj: Mapping[str, Any], field: str) -> int:
    """Ready replicas, 0 while the controller has not yet seen the newest generation: it speaks of the old one."""
    status = obj.get("status") or {}
    seen = int(status.get("observedGeneration") or 0)
    return int(status.get(field) or 0) if seen >= int(obj["metadata"].get("generation") or 0) else 0


def _alive(obj: Mapping[str, Any]) -> bool:
    return not obj["metadata"].get("deletionTimestamp")
