"""The PCI devices of a machine in the JSON form of the Go provider's hardware server (operators.md §2.4).

Ids come from sysfs. Names come from the pci.ids of the root or of this machine; without that file a name is `unknown`,
as the Go provider's server says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provider.operators.hardware.tree import Tree

__all__ = ["PCI_ADDRESS", "PciNames", "device", "pci", "pci_names"]

_DEVICES = "/sys/bus/pci/devices"
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_MODALIAS = re.compile(r"pci:v\w{8}d\w{8}sv(\w{8})sd(\w{8})")
_ID_FILES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PciNames:
    """Names by ids: vendor "10de", product "10de:20b5", subsystem "10de:20b5:10de:1533"; class "03", "03:02"."""

    devices: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)

    def device(self, *ids: str) -> dict[str, str]:
        return {"id": ids[-1], "name": self.devices.get(":".join(ids), _UNKNOWN)}

    def of_class(self, *ids: str) -> dict[str, str]:
        return {"id": ids[-1], "name": self.classes.get(":".join(ids), _UNKNOWN)}


def pci(tree: Tree, names: PciNames) -> dict[str, Any]:
    """Every PCI device, by address."""
    addresses = (name for name in tree.names(_DEVICES) if PCI_ADDRESS.fullmatch(name))
    found = (device(tree, address, names) for address in addresses)
    return {"Devices": [one for one in found if one is not None]}


def device(tree: Tree, address: str, names: PciNames) -> dict[str, Any] | None:
    """One device; None if sysfs has no such device. `id`s are lower-case hex."""
    folder = f"{_DEVICES}/{address}"
    vendor, product, class_ = (
        tree.text(f"{folder}/{name}").removeprefix("0x") for name in ("vendor", "device", "class")
    )
    if not vendor:
        return None
    subvendor, subsystem = _subsystem(tree, folder)
    base, sub, interface = class_[:2], class_[2:4], class_[4:6]
    return {
        "driver": tree.target(f"{folder}/driver").rpartition("/")[2],
        "address": address,
        "vendor": names.device(vendor),
        "product": names.device(vendor, product),
        "revision": tree.text(f"{folder}/revision"),
        "subsystem": {**names.device(vendor, product, subvendor, subsystem), "id": subsystem},
        "class": names.of_class(base),
        "subclass": names.of_class(base, sub),
        "programming_interface": names.of_class(base, sub, interface),
    }


def _subsystem(tree: Tree, folder: str) -> tuple[str, str]:
    """The board vendor's ids. A GPU is never recognised by them (field problem B1)."""
    match = _MODALIAS.match(tree.text(f"{folder}/modalias"))
    return (match[1][-4:].lower(), match[2][-4:].lower()) if match else ("", "")


def pci_names(tree: Tree) -> PciNames:
    """The names of the first pci.ids that exists: in the root folder, then on this machine."""
    for place in (tree, Tree(Path("/"))):
        for path in _ID_FILES:
            if content := place.content(path):
                return _parsed(content.decode(errors="replace"))
    return PciNames()


def _parsed(text: str) -> PciNames:
    """pci.ids: each tab before an id is one level below the line above; `C` begins a class."""
    devices: dict[str, str] = {}
    classes: dict[str, str] = {}
    above: list[str] = []
    target = devices
    for line in text.splitlines():
        level = len(line) - len(line.lstrip("\t"))
        if not line.strip() or line.startswith("#"):
            continue
        ids, _, name = line.strip().partition("  ")
        if level == 0:
            target = classes if ids.startswith("C ") else devices
            ids = ids.removeprefix("C ")
        above = [*above[:level], *ids.split()]
        target[":".join(above)] = name.strip()
    return PciNames(devices, classes)
