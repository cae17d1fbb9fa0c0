"""The classes of Longhorn: replicas on the disks of its nodes (operators.md §2.9, §8 row 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provider.operators.inventory.facts import StorageClassFacts
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.state import StorageState

__all__ = ["PROVISIONER", "LonghornDisk", "Setting", "disks", "largest_volume", "longhorn_storage", "setting"]

PROVISIONER = "driver.longhorn.io"
_DRIVER = "longhorn"
_OVER_PROVISIONING = "storage-over-provisioning-percentage"
_MINIMAL = "storage-minimal-available-percentage"
_DEFAULTS = {_OVER_PROVISIONING: 100, _MINIMAL: 25}
"""Longhorn's own, used while its settings cannot be read."""


@dataclass(frozen=True, slots=True)
class LonghornDisk:
    """A disk that takes replicas, in bytes."""

    node: str
    available: int
    scheduled: int
    maximum: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str


def disks(obj: Mapping[str, Any]) -> tuple[LonghornDisk, ...] | None:
    """The schedulable disks of a Longhorn node; None if it has none."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("allowScheduling") is False or not _true(status.get("conditions"), "Ready"):
        return None
    wanted = spec.get("disks") or {}
    found = [
        LonghornDisk(
            node=obj["metadata"]["name"],
            available=int(disk.get("storageAvailable") or 0),
            scheduled=int(disk.get("storageScheduled") or 0),
            maximum=int(disk.get("storageMaximum") or 0),
            reserved=int((wanted.get(name) or {}).get("storageReserved") or 0),
        )
        for name, disk in (status.get("diskStatus") or {}).items()
        if (wanted.get(name) or {}).get("allowScheduling") and _true(disk.get("conditions"), "Schedulable")
    ]
    return tuple(found) or None


def _true(conditions: object, kind: str) -> bool:
    """Whether the condition is not said to be false: versions of Longhorn differ in what they list."""
    listed = conditions.values() if isinstance(conditions, dict) else conditions or ()
    return all(one.get("status") != "False" for one in listed if one.get("type") == kind)  # type: ignore[attr-defined]


def setting(obj: Mapping[str, Any]) -> Setting | None:
    name = obj["metadata"]["name"]
    return Setting(name, str(obj.get("value", ""))) if name in _DEFAULTS else None


def longhorn_storage(
    classes: Iterable[StorageClassFacts],
    found: Sequence[LonghornDisk],
    *,
    settings: Mapping[str, str],
    allocated: Mapping[str, int],
) -> list[StorageState]:
    """One entry for each class. What is free is the largest sum of volumes whose replicas all fit; the size is that and
    what the class's volumes take.
    """
    free: dict[str, int] = {}
    for disk in found:
        free[disk.node] = free.get(disk.node, 0) + _free(disk, settings)
    states = []
    for one in classes:
        if one.provisioner == PROVISIONER:
            taken = allocated.get(one.name, 0)
            size = largest_volume(list(free.values()), one.replicas) + taken
            states.append(StorageState(one.name, ResourcePair(size, size, taken), _DRIVER, one.provisioner, one.iops))
    return states


def _free(disk: LonghornDisk, settings: Mapping[str, str]) -> int:
    """What replicas may still take: Longhorn keeps a share of the disk free and promises a share of the rest."""
    by_space = disk.available - disk.maximum * _percent(settings, _MINIMAL) // 100
    promised = (disk.maximum - disk.reserved) * _percent(settings, _OVER_PROVISIONING) // 100
    return max(0, min(by_space, promised - disk.scheduled))


def _percent(settings: Mapping[str, str], name: str) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdigit() else _DEFAULTS[name]


def largest_volume(free: Sequence[int], replicas: int) -> int:
    """The largest size whose `replicas` copies fit, no two of one byte on one node: with (100, 10, 10) and two copies
    20, since every byte has its second copy on one of the small nodes.
    """
    rest = sorted(free, reverse=True)
    return min(sum(rest[whole:]) // (replicas - whole) for whole in range(replicas))
