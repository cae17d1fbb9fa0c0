"""The registry of GPUs: PCI ids → name, interface and memory (operators.md §2.5).

The registry is the public one of provider-configs. A snapshot of it comes with this program for a cluster that cannot
reach it, and for the first minutes. An operator's own file may add ids that the registry lacks, and replace entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from lease.kubernetes_names import is_label_name
from provider.errors import SettingsError

__all__ = ["Gpu", "GpuRegistry", "PciId", "additions", "bundled_registry", "merged", "parse_registry", "recognised"]

_ID = re.compile(r"[0-9a-f]{4}")


@dataclass(frozen=True, slots=True, order=True)
class Gpu:
    """A recognised card. `interface` as the registry writes it (`PCIe`, `SXM4`)."""

    vendor: str
    name: str
    memory_size: str = ""
    interface: str = ""
    vendor_id: str = ""
    model_id: str = ""


PciId: TypeAlias = tuple[str, str]
"""Vendor id and product id, four lower-case hex digits each."""
GpuRegistry: TypeAlias = Mapping[PciId, Gpu]


def parse_registry(text: str | bytes, *, source: str) -> dict[PciId, Gpu]:
    """The registry of a JSON document. Raises `SettingsError` for a document that cannot be used as a whole: not JSON,
    empty, a vendor without a name or devices, a device without a name or an id that is not four hex digits.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"GPU registry {source}: not JSON: {error}") from error
    if not isinstance(document, dict) or not document:
        raise SettingsError(f"GPU registry {source}: must be an object of vendors and is {str(document)[:60]!r}")
    found = {}
    for vendor_id, vendor in document.items():
        found.update(_vendor(vendor_id, vendor, source))
    return found


def _vendor(vendor_id: str, vendor: Any, source: str) -> dict[PciId, Gpu]:
    if not _ID.fullmatch(vendor_id) or not isinstance(vendor, dict) or not isinstance(vendor.get("devices"), dict):
        raise SettingsError(f"GPU registry {source}: vendor {vendor_id!r} needs four hex digits, a name and devices")
    name = _name(vendor.get("name"), f"vendor {vendor_id}", source)
    return {
        (vendor_id, model_id): _device(device, name, (vendor_id, model_id), source)
        for model_id, device in vendor["devices"].items()
    }


def _device(device: Any, vendor: str, ids: PciId, source: str) -> Gpu:
    if not _ID.fullmatch(ids[1]) or not isinstance(device, dict):
        raise SettingsError(f"GPU registry {source}: device {':'.join(ids)!r} needs four hex digits and a name")
    name = _name(device.get("name"), f"device {':'.join(ids)}", source)
    memory, interface = (str(device.get(key) or "") for key in ("memory_size", "interface"))
    return Gpu(vendor, name, memory, interface, *ids)


def _name(value: object, place: str, source: str) -> str:
    """A name becomes a part of a label's key, so no other name can be offered."""
    if not isinstance(value, str) or not is_label_name(value):
        raise SettingsError(f"GPU registry {source}: {place}: the name {value!r} cannot be part of a label")
    return value


@cache
def bundled_registry() -> GpuRegistry:
    """The snapshot of the public registry with `additions`."""
    return merged(additions(), _bundled("gpus.json"))


@cache
def additions() -> GpuRegistry:
    """Intel's cards, which the public registry lacks."""
    return _bundled("intel.json")


def _bundled(name: str) -> GpuRegistry:
    content = (resources.files("provider.operators.inventory") / "data" / name).read_bytes()
    return parse_registry(content, source=name)


def merged(*registries: GpuRegistry) -> GpuRegistry:
    """One registry; an entry of a later one replaces an entry of an earlier one."""
    return {ids: gpu for one in registries for ids, gpu in one.items()}


def recognised(ids: Sequence[PciId], registry: GpuRegistry) -> tuple[Gpu, ...]:
    """The cards that the registry knows, sorted by vendor, name and memory."""
    return tuple(sorted(registry[one] for one in ids if one in registry))
