"""Why an order does not fit: in short for its record, node by node for whoever asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lease.gpus import GpuRequest
from lease.groups import GroupSpec
from provider.inventory.capacity import Card, Overcommit
from provider.inventory.needs import Need, needs_of, offered_as, volumes_of
from provider.inventory.reservation import Shortage
from provider.inventory.snapshot import Node, Snapshot
from provider.inventory.survey import Survey

__all__ = ["NOT_TOGETHER", "lacking", "shortage"]

_AMOUNTS = ("cpu", "memory", "ephemeral storage", "pods")
NOT_TOGETHER = "each unit fits alone, but they do not fit together"


def shortage(surveys: Sequence[Survey], snapshot: Snapshot) -> Shortage | None:
    """What keeps a unit out although it were alone, and classes that the units exceed in sum, in the order of the
    units. None: nothing that one look shows.
    """
    reasons = [reason for found in surveys for reason in _unit_reasons(found, snapshot)]
    reasons += _pools_together([found.need for found in surveys], snapshot)
    return Shortage(tuple(reasons)) if reasons else None


def _unit_reasons(found: Survey, snapshot: Snapshot) -> Iterator[str]:
    need = found.need
    if need.impossible:
        yield need.impossible
        return
    yield from _pool_reasons(need, snapshot)
    if not found.options:
        yield f"unit {need.unit.resources.id}: {_no_room(found, snapshot)}"


def _no_room(found: Survey, snapshot: Snapshot) -> str:
    need, nodes = found.need, snapshot.nodes
    fitting = snapshot.index.fitting(need.room, need.classes)
    cards = _matching_cards(found, snapshot)
    if need.gpu_units:
        fitting = [at for at in fitting if cards.get(at, 0) >= need.gpu_units]
    places = snapshot.index.how_many(fitting, need.room)
    if need.gpu_units:
        places = [min(count, cards[at] // need.gpu_units) for at, count in zip(fitting, places, strict=True)]
    room_for = sum(places)
    if room_for >= need.count:
        return f"all {need.count} replicas need GPUs of one model, at most {found.most} fit with any model"
    lacks = ", ".join(
        f"{word} on {count}" for word, count in sorted(_lacking_on(need, snapshot, cards).items()) if count
    )
    words = f"{room_for} of {need.count} replicas fit on {len(nodes)} nodes"
    return f"{words} (too little {lacks})" if lacks else words


def _matching_cards(found: Survey, snapshot: Snapshot) -> dict[int, int]:
    """Position → cards there that serve the unit, of whatever kind."""
    counts: dict[int, int] = {}
    if found.need.gpu_units:
        for card, positions in snapshot.index.cards.items():
            if found.kind_of(card) is not None:
                counts.update({at: counts.get(at, 0) + count for at, count in positions.items()})
    return counts


def _lacking_on(need: Need, snapshot: Snapshot, cards: Mapping[int, int]) -> dict[str, int]:
    """What is too little for one replica → on how many nodes."""
    want, total = need.room, len(snapshot.nodes)
    wants = (want.cpu_milli, want.memory_bytes, want.ephemeral_bytes, want.pods)
    lacks = {
        word: sum(have < asked for have in column)
        for word, column, asked in zip(_AMOUNTS, snapshot.index.columns, wants, strict=True)
    }
    for name in need.classes:
        lacks[f"storage class {name}"] = total - len(snapshot.index.classes.get(name, ()))
    if need.gpu_units:
        lacks["gpu"] = total - sum(count >= need.gpu_units for count in cards.values())
    return lacks


def _pools_together(needs: Sequence[Need], snapshot: Snapshot) -> Iterator[str]:
    """Classes that the units exceed only in sum."""
    for name, size in volumes_of(needs).items():
        free = snapshot.pools.get(name, 0)
        if free < size and all(need.volumes.get(name, 0) * need.count <= free for need in needs):
            yield f"storage class {name} has {free} bytes free, the units need {size} together"


def _pool_reasons(need: Need, snapshot: Snapshot) -> Iterator[str]:
    """What the storage pools cannot give this unit."""
    unit = need.unit.resources.id
    for storage_class, size in need.volumes.items():
        free = snapshot.pools.get(storage_class)
        if free is None:
            yield f"unit {unit}: there is no storage class {storage_class}"
        elif free < size * need.count:
            yield f"unit {unit}: storage class {storage_class} has {free} bytes free, {size * need.count} needed"


def lacking(spec: GroupSpec, snapshot: Snapshot, *, overcommit: Overcommit) -> Mapping[str, tuple[str, ...]]:
    """Node → what keeps a replica of each unit from it, with numbers; nodes that take every unit are left out.

    By the same matcher as the decision: a node is in no list of a unit exactly if it has a place for it.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    for need in needs_of(spec, overcommit):
        for node in snapshot.nodes:
            words = tuple(f"unit {need.unit.resources.id}: {word}" for word in _lacks(node, need))
            if words:
                nodes[node.name] = (*nodes.get(node.name, ()), *words)
    return nodes


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
        yield from _lacks_cards(node, need)


def _lacks_cards(node: Node, need: Need) -> Iterator[str]:
    fitting = sum(offered_as(card, need.gpus) is not None for card in node.cards)
    if fitting < need.gpu_units:
        free = ", ".join(f"{count} × {_card(card)}" for card, count in Counter(node.cards).items()) or "none"
        wanted = " or ".join(_card(request) for request in need.gpus.values())
        yield f"gpu: {fitting} free that match, {need.gpu_units} needed (wanted {wanted}; free {free})"


def _card(card: Card | GpuRequest) -> str:
    return " ".join(part for part in (card.vendor, card.model, card.memory_size, card.interface) if part)
