"""What the NVIDIA driver of a machine says of itself and its cards, and the CUDA version that it runs.

The driver tells no CUDA version outside of its own library, which a pod without a card does not have; the version
follows from the driver's release (CUDA Toolkit release notes, table of minimum drivers).
"""

from __future__ import annotations

import re
from typing import Any

from provider.operators.hardware.tree import Tree

__all__ = ["cuda_version", "features"]

_DRIVER = "/proc/driver/nvidia"
_RELEASE = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_CUDA: tuple[tuple[tuple[int, ...], str], ...] = (
    ((580, 65), "13.0"), ((575, 51), "12.9"), ((570, 26), "12.8"), ((560, 28), "12.6"), ((555, 42), "12.5"),
    ((550, 54), "12.4"), ((545, 23), "12.3"), ((535, 54), "12.2"), ((530, 30), "12.1"), ((525, 60), "12.0"),
    ((520, 61), "11.8"), ((515, 43), "11.7"), ((510, 39), "11.6"), ((495, 29), "11.5"), ((470, 42), "11.4"),
    ((465, 19), "11.3"), ((460, 27), "11.2"), ((455, 23), "11.1"), ((450, 36), "11.0"), ((440, 33), "10.2"),
)  # fmt: skip


def features(tree: Tree) -> dict[str, Any]:
    """`driver_version` and `cuda_version` (empty without the driver), and the driver's name of each card."""
    match = _RELEASE.search(tree.text(f"{_DRIVER}/version"))
    version = match[1] if match else ""
    return {
        "driver_version": version,
        "cuda_version": cuda_version(version),
        "gpus": [_card(tree, address) for address in tree.names(f"{_DRIVER}/gpus")],
    }


def cuda_version(driver: str) -> str:
    """The newest CUDA version that a driver runs ("550.54.14" → "12.4"); empty for a driver older than the table."""
    parts = tuple(int(part) for part in driver.split(".") if part.isdigit())
    return next((cuda for least, cuda in _CUDA if parts >= least), "")


def _card(tree: Tree, address: str) -> dict[str, Any]:
    info = next(tree.fields(f"{_DRIVER}/gpus/{address}/information"), {})
    return {"address": address, "model": info.get("Model", ""), "video_bios": info.get("Video BIOS", "")}
