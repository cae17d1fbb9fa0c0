"""The processors of a machine in the JSON form of the Go provider's hardware server (operators.md §2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provider.operators.hardware.tree import Tree

__all__ = ["cpu"]

_CPUS = "/sys/devices/system/cpu"
_ARM = {"0x41": "ARM"}
_MODEL_NAMES = ("model name", "Processor", "cpu model", "Model Name", "uarch")


def cpu(tree: Tree) -> dict[str, Any]:
    """`total_cores`, `total_hardware_threads` and one entry for each physical package."""
    info = {int(block["processor"]): block for block in tree.fields("/proc/cpuinfo") if _is_processor(block)}
    packages: dict[int, dict[int, list[int]]] = {}
    for logical in _online(tree):
        place = f"{_CPUS}/cpu{logical}/topology"
        package, core = (tree.number(f"{place}/{name}") or 0 for name in ("physical_package_id", "core_id"))
        packages.setdefault(package, {}).setdefault(core, []).append(logical)
    found = [_processor(package, cores, info) for package, cores in sorted(packages.items())]
    return {**_totals(found), "processors": found}


def _is_processor(block: Mapping[str, str]) -> bool:
    return block.get("processor", "").isdigit()


def _online(tree: Tree) -> list[int]:
    """The logical CPUs that run. The boot CPU often has no file `online`."""
    numbers = (name.removeprefix("cpu") for name in tree.names(_CPUS) if name.startswith("cpu"))
    return [int(one) for one in numbers if one.isdigit() and tree.number(f"{_CPUS}/cpu{one}/online") != 0]


def _processor(package: int, cores: Mapping[int, list[int]], info: Mapping[int, Mapping[str, str]]) -> dict[str, Any]:
    listed = [_core(core, logical) for core, logical in sorted(cores.items())]
    logical = [number for numbers in cores.values() for number in numbers]
    block = next((info[number] for number in sorted(logical) if number in info), {})
    threads = len(logical)
    return {
        "id": package,
        "total_cores": len(listed),
        "total_hardware_threads": threads,
        "total_threads": threads,
        "vendor": _vendor(block),
        "model": next((block[name] for name in _MODEL_NAMES if name in block), ""),
        "capabilities": (block.get("flags") or block.get("Features") or "").split(),
        "cores": listed,
    }


def _core(core: int, logical: list[int]) -> dict[str, Any]:
    threads = len(logical)
    return {
        "id": core,
        "total_hardware_threads": threads,
        "total_threads": threads,
        "logical_processors": sorted(logical),
    }


def _vendor(block: Mapping[str, str]) -> str:
    implementer = block.get("CPU implementer", "")
    return block.get("vendor_id") or _ARM.get(implementer, implementer) or block.get("isa", "")


def _totals(processors: list[dict[str, Any]]) -> dict[str, int]:
    threads = sum(one["total_hardware_threads"] for one in processors)
    cores = sum(one["total_cores"] for one in processors)
    return {"total_cores": cores, "total_hardware_threads": threads, "total_threads": threads}
