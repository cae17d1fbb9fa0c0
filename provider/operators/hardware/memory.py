"""The memory of a machine in the JSON form of the Go provider's hardware server (operators.md §2.4), with the modules
that the Go provider's server leaves out.
"""

from __future__ import annotations

from typing import Any

from provider.operators.hardware.modules import memory_modules
from provider.operators.hardware.tree import Tree

__all__ = ["memory"]

_BLOCKS = "/sys/devices/system/memory"
_PAGES = "/sys/kernel/mm/hugepages"
_AMOUNTS = {
    "total": "nr_hugepages",
    "free": "free_hugepages",
    "surplus": "surplus_hugepages",
    "reserved": "resv_hugepages",
}


def memory(tree: Tree) -> dict[str, Any]:
    """Sizes in bytes. `modules` is empty where the firmware's tables cannot be read, as in an unprivileged pod."""
    info = next(tree.fields("/proc/meminfo"), {})
    usable = _kib(info.get("MemTotal", ""))
    amounts = _huge_pages(tree)
    return {
        "total_physical_bytes": _physical(tree) or usable,
        "total_usable_bytes": usable,
        "supported_page_sizes": sorted(amounts),
        "default_huge_page_size": _kib(info.get("Hugepagesize", "")),
        "total_huge_page_bytes": _kib(info.get("Hugetlb", "")),
        "huge_page_amounts_by_size": {str(size): amounts[size] for size in sorted(amounts)},
        "modules": memory_modules(tree),
    }


def _kib(text: str) -> int:
    number = text.partition(" ")[0]
    return int(number) * 1024 if number.isdigit() else 0


def _physical(tree: Tree) -> int:
    """The memory blocks that are online, each of one size."""
    size = tree.number(f"{_BLOCKS}/block_size_bytes", base=16) or 0
    return size * sum(_is_online(tree, f"{_BLOCKS}/{name}") for name in tree.names(_BLOCKS) if name[6:].isdigit())


def _is_online(tree: Tree, folder: str) -> bool:
    return tree.text(f"{folder}/state") == "online" or tree.number(f"{folder}/online") == 1


def _huge_pages(tree: Tree) -> dict[int, dict[str, int]]:
    """Size in bytes → how many pages of it there are."""
    found = {}
    for name in tree.names(_PAGES):
        size = name.removeprefix("hugepages-").removesuffix("kB")
        if size.isdigit():
            files = _AMOUNTS.items()
            found[int(size) * 1024] = {key: tree.number(f"{_PAGES}/{name}/{file}") or 0 for key, file in files}
    return found
