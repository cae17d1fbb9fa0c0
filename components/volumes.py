"""Volumes, claim templates and mounts of a service (kubernetes-objects.md §2.6)."""

from __future__ import annotations

from collections.abc import Iterable

from components.checks import label_part, subdomain
from components.labels import Object
from components.quantity import decimal
from lease.spec import ServiceSpec, VolumeKind, VolumeSpec

__all__ = ["claim_templates", "mounts", "pod_volumes", "storage_classes"]


def pod_volumes(service: ServiceSpec) -> list[Object]:
    """Volumes that end with the pod: memory always, the node's disk only where a container mounts it (§10 Q10)."""
    return [
        {"name": _name(service, volume), "emptyDir": _empty_dir(volume)}
        for volume in service.volumes
        if volume.kind is VolumeKind.RAM or (volume.kind is VolumeKind.EPHEMERAL and volume.mount)
    ]


def claim_templates(service: ServiceSpec) -> list[Object]:
    """Volumes that outlive the pod. Class `default` means the cluster's default class, so that no class is named."""
    return [
        {"metadata": {"name": _name(service, volume)}, "spec": _claim(volume)}
        for volume in service.volumes
        if volume.kind is VolumeKind.PERSISTENT
    ]


def mounts(service: ServiceSpec) -> list[Object]:
    """One mount for each mounted volume, sorted by volume name as every SDL parser sends them."""
    mounted = sorted((volume for volume in service.volumes if volume.mount), key=lambda volume: volume.name)
    return [_mount(service, volume) for volume in mounted]


def storage_classes(volumes: Iterable[VolumeSpec]) -> list[str]:
    """The classes that the pod's node must serve, one for each persistent volume, with repetitions (§2.5.3)."""
    return [
        label_part(f"storage class of volume {volume.name!r}", volume.storage_class)
        for volume in volumes
        if volume.kind is VolumeKind.PERSISTENT and volume.storage_class
    ]


def _empty_dir(volume: VolumeSpec) -> Object:
    medium = {"medium": "Memory"} if volume.kind is VolumeKind.RAM else {}
    return medium | {"sizeLimit": decimal(volume.size_bytes)}


def _claim(volume: VolumeSpec) -> Object:
    claim: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": decimal(volume.size_bytes)}},
        "volumeMode": "Filesystem",
    }
    if volume.storage_class not in ("", "default"):
        claim["storageClassName"] = subdomain(f"storage class of volume {volume.name!r}", volume.storage_class)
    return claim


def _mount(service: ServiceSpec, volume: VolumeSpec) -> Object:
    read_only = {"readOnly": True} if volume.read_only else {}
    return {"name": _name(service, volume), "mountPath": volume.mount} | read_only


def _name(service: ServiceSpec, volume: VolumeSpec) -> str:
    return f"{service.name}-{volume.name}"
