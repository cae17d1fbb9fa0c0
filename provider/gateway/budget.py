"""The budget of a manifest: how many services, ports, objects and bytes it may become, by what its lease rents.

An internal expose uses up no rented endpoint and a hostname none of its own, so a group that rents a hundredth of a CPU
could ask for thousands of Kubernetes objects. Every bound is far above what an honest manifest needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lease.manifest import Group
from lease.manifest_json import canonical_manifest
from lease.spec import LeaseSpec
from provider.records.applied import stored_bytes
from provider.records.manifests import ManifestRecord, manifest_object

__all__ = ["SMALL_GROUP", "Budget", "budget_of", "budget_problem", "group_problem", "sizes"]

_PORTS = 64
"""Internal ports for each replica."""
_PORTS_FOR = 16
"""Replicas for which internal ports are counted: a hundred replicas of one service share its ports."""
_KIB = 1024
_RECORD_MOST = 768 * _KIB
"""A Secret holds 1 MiB; the rest is for templates that an upgrade keeps as found (architecture §4)."""
_OBJECT_MOST = 512 * _KIB
"""etcd takes 1.5 MiB; the API server's list of managed fields may be as large as the object."""
_MANIFEST_MOST = 1280 * _KIB
SMALL_GROUP = 8 * _KIB
"""The sizes of what becomes of a group of so many bytes are not counted: they stay below half of every bound."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most of each. `record_bytes`: of the Secret with the applied version, compressed as it is stored."""

    services: int
    ports: int
    objects: int
    record_bytes: int


def budget_of(group: Group) -> Budget:
    """The budget of a group: by its replicas and its global exposes, which are what it rents (cross-validation)."""
    services = group.services or ()
    replicas = sum(max(0, service.count) for service in services)
    endpoints = sum(expose.global_ for service in services for expose in service.expose or ())
    return Budget(
        services=replicas,
        ports=endpoints + _PORTS * min(replicas, _PORTS_FOR),
        objects=16 + 12 * replicas + 36 * endpoints,
        record_bytes=min(64 * _KIB * (1 + replicas), _RECORD_MOST),
    )


def group_problem(group: Group) -> str:
    """What of the group itself is beyond its budget, before anything is built; empty when nothing is."""
    budget, services = budget_of(group), group.services or ()
    ports = sum(len(service.expose or ()) for service in services)
    return next(_exceeded((("services", len(services), budget.services), ("ports", ports, budget.ports))), "")


def budget_problem(record: ManifestRecord, spec: LeaseSpec, objects: Sequence[Mapping[str, Any]]) -> str:
    """What of the objects and records is beyond the budget; empty when nothing is."""
    budget = budget_of(record.group)
    if len(objects) <= budget.objects and len(canonical_manifest((record.group,))) <= SMALL_GROUP:
        return ""
    counts = (("Kubernetes objects", len(objects), budget.objects), *sizes(record, spec, objects))
    return next(_exceeded(counts), "")


def sizes(
    record: ManifestRecord, spec: LeaseSpec, objects: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, int, int], ...]:
    """What is stored, each with its bytes and the most of them: the record, the largest object, the Manifest object."""
    size, largest = max(((_size(obj), number, obj) for number, obj in enumerate(objects)))[::2]
    return (
        ("bytes in the record of its version", stored_bytes(spec), budget_of(record.group).record_bytes),
        (f"bytes in its {largest['kind']} {largest['metadata']['name']}", size, _OBJECT_MOST),
        ("bytes in its Manifest object", _size(manifest_object(record, namespace="-")), _MANIFEST_MOST),
    )


def _exceeded(counts: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    for what, count, most in counts:
        if count > most:
            yield f"the manifest needs {count} {what}; what the lease rents allows {most}"


def _size(obj: Mapping[str, Any]) -> int:
    return len(json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))
