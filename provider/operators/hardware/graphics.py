"""The graphics cards of a machine (operators.md §2.4).

The Go provider's server lists the cards of /sys/class/drm only. A compute card whose driver brings no display device is
not there, so display controllers and accelerators of the PCI bus are listed too.
"""

from __future__ import annotations

import re
from typing import Any

from provider.operators.hardware.pci import PCI_ADDRESS, PciNames, device, pci
from provider.operators.hardware.tree import Tree

__all__ = ["gpu"]

_DRM = "/sys/class/drm"
_CARD = re.compile(r"card(\d+)")
_DISPLAY, _ACCELERATOR = "03", "12"


def gpu(tree: Tree, names: PciNames) -> dict[str, Any]:
    """`cards`, by index; null if the machine has neither a folder of cards nor a device of that class."""
    cards = _of_drm(tree, names)
    known = {card["address"] for card in cards}
    others = [one for one in pci(tree, names)["Devices"] if _is_gpu(one) and one["address"] not in known]
    first = max((card["index"] for card in cards), default=-1) + 1
    cards += [_card(first + number, one["address"], one) for number, one in enumerate(others)]
    return {"cards": cards if cards or tree.is_folder(_DRM) else None}


def _of_drm(tree: Tree, names: PciNames) -> list[dict[str, Any]]:
    cards = []
    for name in tree.names(_DRM):
        match = _CARD.fullmatch(name)
        addresses = PCI_ADDRESS.findall(tree.target(f"{_DRM}/{name}"))
        if match and addresses:
            cards.append(_card(int(match[1]), addresses[-1], device(tree, addresses[-1], names)))
    return cards


def _card(index: int, address: str, found: dict[str, Any] | None) -> dict[str, Any]:
    return {"address": address, "index": index, "pci": found}


def _is_gpu(found: dict[str, Any]) -> bool:
    return found["class"]["id"] in (_DISPLAY, _ACCELERATOR)
