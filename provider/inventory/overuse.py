"""Nodes whose pods request more than the node has: after a node shrank, lost a card, or got pods without the scheduler.
Nothing is free on such a node, and the operator gets to know by how much (field problem C5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import structlog

from provider.inventory.capacity import Capacity
from provider.inventory.snapshot import Inventory, Node

__all__ = ["log_overused", "overused"]

_log = structlog.get_logger(__name__)
_MIB = 2**20


def overused(inventory: Inventory) -> Mapping[str, str]:
    """Node → what it lacks for its pods: `500 milli-CPU, 12 MiB memory, 1 nvidia GPUs`. Reservations without a pod do
    not count, and nodes that take no pods of tenants are left out.
    """
    used = {node.name: Counter[str]() for node in inventory.nodes}
    for pod in inventory.pods:
        if (sums := used.get(pod.node)) is not None:
            _add(sums, pod.requests)
            if pod.gpu_units:
                sums[f"{pod.gpu_vendor} GPUs"] += pod.gpu_units
    return {node.name: lacks for node in inventory.nodes if (lacks := ", ".join(_lacks(node, used[node.name])))}


def log_overused(inventory: Inventory, logged: Mapping[str, str]) -> Mapping[str, str]:
    """Log the nodes that are not in `logged`, and those of `logged` that recovered. Returns the next `logged`."""
    found = overused(inventory)
    for node in found.keys() - logged.keys():
        _log.warning(
            "inventory.overcommitted", node=node, by=found[node], remedy="nothing is free on this node: move pods away"
        )
    for node in logged.keys() - found.keys():
        _log.info("inventory.not_overcommitted", node=node)
    return found


def _add(sums: Counter[str], requests: Capacity) -> None:
    sums["milli-CPU"] += requests.cpu_milli
    sums["MiB memory"] += requests.memory_bytes
    sums["MiB ephemeral storage"] += requests.ephemeral_bytes
    sums["pods"] += requests.pods


def _lacks(node: Node, used: Counter[str]) -> Iterator[str]:
    there = Counter(f"{card.vendor} GPUs" for card in node.cards)
    _add(there, node.capacity)
    for what, amount in used.items():
        if (lack := amount - there[what]) > 0:
            yield f"{-(-lack // _MIB) if what.startswith('MiB') else lack} {what}"
