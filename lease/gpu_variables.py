"""Environment variables by which a container chooses the devices of its node, which only the provider may set.

The GPU vendors' container runtimes read them from the container's environment, and a variable of the pod replaces the
one that the device plugin sets: `NVIDIA_VISIBLE_DEVICES=all` gives a pod every card of its node, whatever it rents.
Images set them too (those of CUDA do), so a service without a card gets the value that means "no card".
"""

from __future__ import annotations

__all__ = ["LOADER_VARIABLES", "PROVIDER_VARIABLES", "fixed_variables"]

_NO_CARD = {"NVIDIA_VISIBLE_DEVICES": "void"}
PROVIDER_VARIABLES = frozenset(
    {
        "AMD_VISIBLE_DEVICES",
        "NVIDIA_GDRCOPY",
        "NVIDIA_GDS",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "NVIDIA_SWITCH",
        "NVIDIA_VISIBLE_DEVICES",
    }
)
"""Each one adds devices of the node to the container."""
LOADER_VARIABLES = frozenset({"LD_AUDIT", "LD_PRELOAD"})
"""The hook of NVIDIA's toolkit ran with the container's environment as root of the node until version 1.17.8
(CVE-2025-23266): a library of the image was loaded there. Empty, so that a value of the image has no effect either.
"""


def fixed_variables(*, gpus: int) -> tuple[dict[str, str], frozenset[str]]:
    """The variables that the provider adds to a service with `gpus` cards, and the names that no tenant sets in it."""
    if not gpus:
        return dict(_NO_CARD), PROVIDER_VARIABLES
    return dict.fromkeys(sorted(LOADER_VARIABLES), ""), PROVIDER_VARIABLES | LOADER_VARIABLES
