"""Builds the ResourceQuota and the LimitRange of a lease's namespace.

The quota allows twice what the services rent, because the pods of a new version may begin while the pods of the old
version end. It allows one small pod more, because an operator's own controllers may run one in the namespace (a solver
of certificate challenges). The quota counts the objects that controllers make. The quota does not count Services and
Secrets: the API server refuses an object of a counted kind until the quota's controller has counted once, and the
engine makes Services and Secrets at once. The LimitRange gives limits to a container that sets none.
"""

from __future__ import annotations

from components.labels import Object, metadata, namespace_labels
from components.quantity import decimal, milli
from lease.build import UNRENTED_EPHEMERAL_BYTES
from lease.spec import LeaseSpec, ServiceSpec, VolumeKind

__all__ = ["bound_objects"]

_VERSIONS = 2
_MOST = 10**18
"""Below 2^63, the largest amount that an API server stores as it was sent."""
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
        "pods": _bound(pods, 1),
        "limits.cpu": milli(min(_VERSIONS * cpu + _SMALL_CPU_MILLI, _MOST)),
        "limits.memory": _bound(memory, _SMALL_MEMORY_BYTES),
        "limits.ephemeral-storage": _bound(ephemeral, UNRENTED_EPHEMERAL_BYTES),
        "persistentvolumeclaims": _bound(sum(count for count, _ in claims), 0),
        "requests.storage": _bound(sum(count * size for count, size in claims), 0),
    }


def _bound(rented: int, small: int) -> str:
    return decimal(min(_VERSIONS * rented + small, _MOST))


def _of_one(service: ServiceSpec) -> tuple[int, int, int, int]:
    """Pods, milli-CPU, bytes of memory and of disk of one replica."""
    return 1, service.cpu_limit_milli, service.memory_limit_bytes, service.ephemeral_limit_bytes


def _small() -> dict[str, str]:
    return {
        "cpu": milli(_SMALL_CPU_MILLI),
        "memory": decimal(_SMALL_MEMORY_BYTES),
        "ephemeral-storage": decimal(UNRENTED_EPHEMERAL_BYTES),
    }
