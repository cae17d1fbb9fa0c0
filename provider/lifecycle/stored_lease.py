"""Reads what the cluster stores of one lease: its records and its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.labels import FORM_LABEL
from lease.ids import LeaseId, namespace_name
from lease.spec import FIRST_FORM, FORM
from provider.protocols import Cluster
from provider.protocols.cluster import MANIFEST, NAMESPACE, SECRET
from provider.records.applied import Applied, applied_name, read_applied
from provider.records.manifests import ManifestRecord, read_manifest

__all__ = ["NamespaceState", "StoredLease", "read_namespace", "read_stored_lease"]


class NamespaceState(StrEnum):
    ABSENT = "absent"
    ACTIVE = "active"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class StoredLease:
    """`held_by`: why the namespace is still terminating, as the API server says it. `form`: the form of the lease's
    objects, as the namespace's label says it; the newest one without a namespace.
    """

    manifest: ManifestRecord | None
    applied: Applied
    namespace: NamespaceState
    held_by: str = ""
    form: int = FORM


async def read_stored_lease(cluster: Cluster, lease: LeaseId, *, records: str) -> StoredLease:
    """What is stored of the lease. `records`: the namespace of records. Raises `ClusterError`, or `BadRecordError` for
    a record that cannot be read.
    """
    name = namespace_name(lease)
    manifest = await cluster.get(MANIFEST, name, namespace=records)
    applied = await cluster.get(SECRET, applied_name(lease), namespace=records)
    namespace = await cluster.get(NAMESPACE, name)
    state, held_by = _state(namespace)
    record = read_manifest(manifest) if manifest is not None else None
    return StoredLease(record, read_applied(applied), state, held_by, _form(namespace))


async def read_namespace(cluster: Cluster, name: str) -> tuple[NamespaceState, str]:
    """The state of the namespace, and what keeps a terminating one. Raises `ClusterError`."""
    return _state(await cluster.get(NAMESPACE, name))


def _form(namespace: Mapping[str, Any] | None) -> int:
    """A namespace without the label was made before there were forms, or by the Go provider."""
    if namespace is None:
        return FORM
    text = str((namespace["metadata"].get("labels") or {}).get(FORM_LABEL, FIRST_FORM))
    return min(int(text), FORM) if text.isascii() and text.isdigit() else FIRST_FORM


def _state(obj: Mapping[str, Any] | None) -> tuple[NamespaceState, str]:
    if obj is None:
        return NamespaceState.ABSENT, ""
    status = obj.get("status") or {}
    if not obj["metadata"].get("deletionTimestamp") and status.get("phase") != "Terminating":
        return NamespaceState.ACTIVE, ""
    messages = (item.get("message", "") for item in status.get("conditions") or () if item.get("status") == "True")
    return NamespaceState.TERMINATING, "; ".join(filter(None, messages))
