"""Why an order does not fit, unit by unit and node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from provider.inventory.needs import Need, offered_as
from provider.inventory.reservation import Shortage
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["explain"]


def explain(needs: Sequence[Need], snapshot: Snapshot) -> Shortage:
    """Reasons in the order of the units. When each unit fits alone, that they do not fit together."""
    reasons: list[str] = []
    nodes: dict[str, tuple[str, ...]] = {}
    for need in needs:
        reasons += [need.impossible] if need.impossible else _unit_reasons(need, snapshot, nodes)
    return Shortage(tuple(reasons) or ("the units fit one by one, but not together",), nodes)


def _unit_reasons(need: Need, snapshot: Snapshot, nodes: dict[str, tuple[str, ...]]) -> Iterator[str]:
    unit = need.unit.resources.id
    for storage_class, size in need.volumes.items():
        free = snapshot.pools.get(storage_class)
        if free is None:
            yield f"unit {unit}: there is no storage class {storage_class}"
        elif free < size * need.count:
            yield f"unit {unit}: storage class {storage_class} has {free} bytes free, {size * need.count} needed"
    lacks: Counter[str] = Counter()
    places = 0
    for node in snapshot.nodes:
        found = tuple(_lacks(node, need))
        places += 0 if found else _places(node, need)
        lacks.update(word.partition(":")[0] for word in found)
        if found:
            nodes[node.name] = (*nodes.get(node.name, ()), *(f"unit {unit}: {word}" for word in found))
    if places < need.count:
        short = ", ".join(f"{word} on {count}" for word, count in sorted(lacks.items()))
        yield f"unit {unit}: room for {places} of {need.count} replicas on {len(snapshot.nodes)} nodes" + (
            f" (too little {short})" if short else ""
        )


def _places(node: Node, need: Need) -> int:
    count = node.room.how_many(need.room)
    if not need.gpu_units:
        return count
    return min(count, sum(offered_as(card, need.gpus) is not None for card in node.cards) // need.gpu_units)


def _lacks(node: Node, need: Need) -> Iterator[str]:
    """What keeps one replica from this node."""
    room, want = node.room, need.room
    for word, have, asked in (
        ("cpu", room.cpu_milli, want.cpu_milli),
        ("memory", room.memory_bytes, want.memory_bytes),
        ("ephemeral storage", room.ephemeral_bytes, want.ephemeral_bytes),
        ("pods", room.pods, want.pods),
    ):
        if have < asked:
            yield f"{word}: {have} free, {asked} needed"
    for storage_class in sorted(need.classes.difference(node.storage_classes)):
        yield f"storage class {storage_class}: not on this node"
    if need.gpu_units:
        fitting = sum(offered_as(card, need.gpus) is not None for card in node.cards)
        if fitting < need.gpu_units:
            yield f"gpu: {fitting} free that match, {need.gpu_units} needed"
