"""Storage: volumes have a limit, claims are new ones of the lease, and mounts stay inside their volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.pods import all_containers, at, items, listed, named, pod_of
from policies.quantities import positive, quantity
from policies.rules import (
    BOTH,
    Level,
    Manifest,
    ObjectProblem,
    Objects,
    Rule,
    RuleScope,
    Severity,
    fence,
    of_each,
)

__all__ = ["RULES", "known_classes"]

_CLAIM = frozenset({"accessModes", "resources", "storageClassName", "volumeMode"})
_EMPTY_DIR = frozenset({"medium", "sizeLimit"})
_MOUNT = frozenset({"mountPath", "name", "readOnly"})
_FORBIDDEN_MOUNT = ("mountPropagation", "subPathExpr")


def _bounded(manifest: Manifest) -> Iterator[str]:
    for volume in items(pod_of(manifest), "volumes"):
        if "emptyDir" not in volume:
            continue
        empty = at(volume, "emptyDir")
        if not positive(empty.get("sizeLimit")):
            yield f"volume {str(volume.get('name'))!r} has no sizeLimit"
        if empty.get("medium") not in (None, "", "Memory") or set(map(str, empty)) - _EMPTY_DIR:
            yield f"volume {str(volume.get('name'))!r} is {dict(empty)}"


def _claims(manifest: Manifest) -> Iterator[str]:
    for template in items(at(manifest, "spec"), "volumeClaimTemplates"):
        name, spec = str(at(template, "metadata").get("name")), at(template, "spec")
        if strange := set(map(str, spec)) - _CLAIM:
            yield f"claim {name!r} has {', '.join(sorted(strange))}"
        if list(map(str, listed(spec.get("accessModes")))) != ["ReadWriteOnce"]:
            yield f"claim {name!r} has the access modes {spec.get('accessModes')}"
        if spec.get("volumeMode") not in (None, "Filesystem"):
            yield f"claim {name!r} is a raw device"
        if not positive(at(spec, "resources", "requests").get("storage")):
            yield f"claim {name!r} has no size"


def _existing_claims(objects: Objects) -> Iterator[ObjectProblem]:
    """A volume of a pod that names a claim mounts what exists, perhaps for another service."""
    for manifest in objects if objects.lease_namespaces else ():
        for volume in items(pod_of(manifest), "volumes"):
            if "persistentVolumeClaim" in volume:
                name = at(volume, "persistentVolumeClaim").get("claimName")
                yield ObjectProblem(manifest, f"volume {str(volume.get('name'))!r} is the existing claim {name}")


def _mounts(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        if container.get("volumeDevices"):
            yield f"{named(container)} has raw devices"
        for mount in items(container, "volumeMounts"):
            for field in _FORBIDDEN_MOUNT:
                if mount.get(field) not in (None, "None", ""):
                    yield f"{named(container)} has a mount with {field}"
            yield from (f"{named(container)} {text}" for text in _path(mount))


def _path(mount: Mapping[str, Any]) -> Iterator[str]:
    path = mount.get("mountPath")
    if not isinstance(path, str) or not path.startswith("/") or ":" in path:
        yield f"has the mount path {str(path)[:200]!r}"


def _plain_mounts(objects: Objects) -> Iterator[ObjectProblem]:
    for manifest in objects if objects.lease_namespaces else ():
        for container in all_containers(manifest):
            for mount in items(container, "volumeMounts"):
                if strange := set(map(str, mount)) - _MOUNT:
                    yield ObjectProblem(manifest, f"{named(container)} has a mount with {', '.join(sorted(strange))}")


def _rented(objects: Objects) -> Iterator[ObjectProblem]:
    services = objects.lease.services if objects.lease else {}
    for workload in objects.of_kinds("Deployment", "StatefulSet"):
        rented = services.get(str(at(workload, "metadata").get("name")))
        if rented is None or rented.kept:
            continue
        for name, size, class_ in _volumes(workload):
            bound = rented.volumes.get(name)
            amount = quantity(size)
            if bound is None or amount is None or amount > bound[0] or class_ not in (None, bound[1]):
                yield ObjectProblem(workload, f"volume {name!r} of {size} and class {class_} is not rented")


def _volumes(workload: Manifest) -> Iterator[tuple[str, object, str | None]]:
    """Name, size and storage class of each volume; an emptyDir has no class."""
    for volume in items(pod_of(workload), "volumes"):
        yield str(volume.get("name")), at(volume, "emptyDir").get("sizeLimit"), None
    for template in items(at(workload, "spec"), "volumeClaimTemplates"):
        spec = at(template, "spec")
        size = at(spec, "resources", "requests").get("storage")
        yield str(at(template, "metadata").get("name")), size, str(spec.get("storageClassName") or "")


def known_classes(classes: Sequence[str]) -> Rule:
    """A rule against claims of another storage class than `classes`. The cluster's default class is the empty name."""

    def check(manifest: Manifest) -> Iterator[str]:
        for template in items(at(manifest, "spec"), "volumeClaimTemplates"):
            if (name := at(template, "spec").get("storageClassName") or "default") not in classes:
                yield f"storage class {str(name)[:100]} is not rented out here"

    return Rule(
        id="known-storage-class",
        severity=Severity.MEDIUM,
        level=Level.MANDATORY,
        reason="The operator rents out no other storage classes (storage.classes).",
        remedy="Use one of the storage classes.",
        check=of_each(check, "StatefulSet"),
        fence=False,
        topic="storage",
    )


RULES = (
    fence(
        "bounded-volume",
        of_each(_bounded),
        reason="A volume without a limit fills its node's disk or memory.",
        remedy="Set emptyDir.sizeLimit.",
        form=2,
        domains=BOTH,
    ),
    fence(
        "new-claim",
        of_each(_claims, "StatefulSet"),
        reason="A claim that names a volume, a source or a selector takes what another tenant wrote; a raw device is "
        "read past every file system.",
        remedy="Claim a new volume of a storage class, ReadWriteOnce and Filesystem.",
    ),
    fence(
        "no-existing-claim",
        _existing_claims,
        reason="A service has the claims of its own StatefulSet.",
        remedy="Use a volumeClaimTemplate.",
        scope=RuleScope.STACK,
    ),
    fence(
        "no-mount-of-the-node",
        of_each(_mounts),
        reason="Mount propagation and raw devices reach the node.",
        remedy="Remove mountPropagation, subPathExpr and volumeDevices, and use an absolute path.",
        domains=BOTH,
    ),
    fence(
        "plain-mounts",
        _plain_mounts,
        reason="Sub-paths were the way out of a volume more than once (CVE-2017-1002101, CVE-2021-25741).",
        remedy="Mount the whole volume.",
        scope=RuleScope.STACK,
    ),
    fence(
        "rented-storage",
        _rented,
        reason="Space beyond the reservation is another tenant's.",
        remedy="Use the volumes that the service rents, of their size and class.",
        scope=RuleScope.STACK,
    ),
)
