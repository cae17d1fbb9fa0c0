"""The answers of the hardware server, by kind: `/` has four of them together (operators.md §2.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from provider.operators.hardware.cpu import cpu
from provider.operators.hardware.disks import block, network
from provider.operators.hardware.features import features
from provider.operators.hardware.graphics import gpu
from provider.operators.hardware.memory import memory
from provider.operators.hardware.pci import pci, pci_names
from provider.operators.hardware.tree import Tree

__all__ = ["KINDS", "node_report", "report", "whole_report"]

_Read: TypeAlias = Callable[[Tree], dict[str, Any]]

KINDS: Mapping[str, _Read] = {
    "cpu": cpu,
    "gpu": lambda tree: gpu(tree, pci_names(tree)),
    "memory": memory,
    "pci": lambda tree: pci(tree, pci_names(tree)),
    "block": block,
    "network": network,
    "features": features,
}
"""The first four are the Go provider's; the others are additions (operators.md §8, row 4)."""
_WHOLE = ("cpu", "memory", "gpu", "pci")
_OF_NODE = ("cpu", "gpu", "memory", "block", "network", "features")


def report(kind: str, tree: Tree) -> dict[str, Any]:
    """The answer of one kind. Raises KeyError for a kind that does not exist."""
    return KINDS[kind](tree)


def whole_report(tree: Tree) -> dict[str, Any]:
    """The four kinds of the Go provider's server. `errors` lists what could not be read, null if nothing."""
    return _together(tree, _WHOLE)


def node_report(tree: Tree) -> dict[str, Any]:
    """All that the inventory operator asks of a node, in one answer."""
    return _together(tree, _OF_NODE)


def _together(tree: Tree, kinds: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    errors: list[str] = []
    for kind in kinds:
        try:
            found[kind] = report(kind, tree)
        except (OSError, ValueError) as error:
            found[kind] = None
            errors.append(f"{kind}: {error}")
    return {"errors": errors or None, **found}
