"""The disks and the network interfaces of a machine. The Go provider's server has neither (operators.md §8, row 4)."""

from __future__ import annotations

from typing import Any

from provider.operators.hardware.pci import PCI_ADDRESS
from provider.operators.hardware.tree import Tree

__all__ = ["block", "network"]

_BLOCK, _NET = "/sys/block", "/sys/class/net"
_SECTOR_BYTES = 512
"""The unit of /sys/block/*/size, whatever the disk's own sectors are."""
_CONTROLLERS = {"nvme": "nvme", "sd": "scsi", "sr": "scsi", "vd": "virtio", "xvd": "xen", "hd": "ide", "mmcblk": "mmc"}
_VIRTUAL = "/virtual/"
_ETHERNET = "1"


def block(tree: Tree) -> dict[str, Any]:
    """`disks` without mapped, looped and compressed ones, and their size in all."""
    disks = [_disk(tree, name) for name in tree.names(_BLOCK) if _VIRTUAL not in tree.target(f"{_BLOCK}/{name}")]
    return {"total_size_bytes": sum(disk["size_bytes"] for disk in disks), "disks": disks}


def _disk(tree: Tree, name: str) -> dict[str, Any]:
    folder = f"{_BLOCK}/{name}"
    return {
        "name": name,
        "size_bytes": (tree.number(f"{folder}/size") or 0) * _SECTOR_BYTES,
        "physical_block_size_bytes": tree.number(f"{folder}/queue/physical_block_size") or 0,
        "drive_type": _drive_type(tree, name),
        "storage_controller": _controller(name),
        "removable": tree.number(f"{folder}/removable") == 1,
        "vendor": tree.text(f"{folder}/device/vendor"),
        "model": tree.text(f"{folder}/device/model"),
        "serial_number": tree.text(f"{folder}/device/serial"),
    }


def _drive_type(tree: Tree, name: str) -> str:
    """`nvme`, `ssd`, `hdd` or `odd` (an optical drive); `unknown` if the kernel does not say whether it turns."""
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith("sr"):
        return "odd"
    rotational = tree.number(f"{_BLOCK}/{name}/queue/rotational")
    return {0: "ssd", 1: "hdd"}.get(-1 if rotational is None else rotational, "unknown")


def _controller(name: str) -> str:
    return next((kind for prefix, kind in _CONTROLLERS.items() if name.startswith(prefix)), "unknown")


def network(tree: Tree) -> dict[str, Any]:
    """`nics`: every Ethernet interface but the loopback. `speed_mbps` is 0 for an interface without a link."""
    return {"nics": [_interface(tree, name) for name in tree.names(_NET) if _is_interface(tree, name)]}


def _is_interface(tree: Tree, name: str) -> bool:
    return name != "lo" and tree.is_folder(f"{_NET}/{name}") and tree.text(f"{_NET}/{name}/type") in ("", _ETHERNET)


def _interface(tree: Tree, name: str) -> dict[str, Any]:
    target = tree.target(f"{_NET}/{name}")
    addresses = PCI_ADDRESS.findall(target)
    return {
        "name": name,
        "mac_address": tree.text(f"{_NET}/{name}/address"),
        "is_virtual": _VIRTUAL in target,
        "speed_mbps": max(0, tree.number(f"{_NET}/{name}/speed") or 0),
        "pci_address": addresses[-1] if addresses else "",
    }
