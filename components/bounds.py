"""The bounds of a lease's namespace: a ResourceQuota of what is rented, and default limits for a container without any.

The quota is twice what the services rent, because the pods of a new version may begin while those of the old one end,
and one small pod more, because an operator's own controllers may run one there (a solver of certificate challenges). It
counts what controllers make. It does not count Services and Secrets: the API server refuses an object of a counted kind
until the quota's controller has counted once, and the engine makes those objects at once.
"""

from __future__ import annotations

from components.labels import Object, metadata, namespace_labels
from components.quantity import decimal, milli
from lease.build import UNRENTED_EPHEMERAL_BYTES
from lease.spec import LeaseSpec, ServiceSpec, VolumeKind

__all__ = ["bound_objects"]

_VERSIONS = 2
_SMALL_CPU_MILLI = 100
_SMALL_MEMORY_BYTES = 128 * 2**20


def bound_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """ResourceQuota and LimitRange; empty for a lease of form 1, and before its services are known."""
    if not spec.fenced or not spec.services:
        return ()
    labels = namespace_labels(spec)
    return (
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("akash-rented", spec.namespace, labels=labels),
            "spec": {"hard": _hard(spec.services)},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata("akash-defaults", spec.namespace, labels=labels),
            "spec": {"limits": [{"type": "Container", "default": _small(), "defaultRequest": _small()}]},
        },
    )


def _hard(services: tuple[ServiceSpec, ...]) -> dict[str, str]:
    claims = [
        (service.count, volume.size_bytes)
        for service in services
        for volume in service.volumes
        if volume.kind is VolumeKind.PERSISTENT
    ]
    pods, cpu, memory, ephemeral = (
        sum(service.count * amount for service, amount in zip(services, amounts, strict=True))
        for amounts in zip(*(_of_one(service) for service in services), strict=True)
    )
    return {
        "pods": decimal(_VERSIONS * pods + 1),
        "limits.cpu": milli(_VERSIONS * cpu + _SMALL_CPU_MILLI),
        "limits.memory": decimal(_VERSIONS * memory + _SMALL_MEMORY_BYTES),
        "limits.ephemeral-storage": decimal(_VERSIONS * ephemeral + UNRENTED_EPHEMERAL_BYTES),
        "persistentvolumeclaims": decimal(_VERSIONS * sum(count for count, _ in claims)),
        "requests.storage": decimal(_VERSIONS * sum(count * size for count, size in claims)),
    }


def _of_one(service: ServiceSpec) -> tuple[int, int, int, int]:
    """Pods, milli-CPU, bytes of memory and of disk of one replica."""
    return 1, service.cpu_limit_milli, service.memory_limit_bytes, service.ephemeral_limit_bytes


def _small() -> dict[str, str]:
    return {
        "cpu": milli(_SMALL_CPU_MILLI),
        "memory": decimal(_SMALL_MEMORY_BYTES),
        "ephemeral-storage": decimal(UNRENTED_EPHEMERAL_BYTES),
    }
