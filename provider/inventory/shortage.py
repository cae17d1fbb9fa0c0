"""Why an order does not fit: in short for its record, and node by node for an explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lease.gpus import GpuRequest
from lease.groups import GroupSpec
from provider.inventory.candidates import Candidates
from provider.inventory.capacity import Card, Overcommit
from provider.inventory.needs import Need, needs_of, offered_as, volumes_of
from provider.inventory.reservation import Shortage
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["NOT_TOGETHER", "lacking", "shortage"]

_AMOUNTS = ("cpu", "memory", "ephemeral storage", "pods")
NOT_TOGETHER = "each unit fits alone, but they do not fit together"


def shortage(units: Sequence[Candidates], snapshot: Snapshot) -> Shortage | None:
    """Why a unit does not fit even alone, and which storage classes the units exceed in sum, in the order of the units.
    None when every unit fits alone.
    """
    reasons = [reason for found in units for reason in _unit_reasons(found, snapshot)]
    reasons += _pools_together([found.need for found in units], snapshot)
    return Shortage(tuple(reasons)) if reasons else None


def _unit_reasons(found: Candidates, snapshot: Snapshot) -> Iterator[str]:
    need = found.need
    if need.impossible:
        yield need.impossible
        return
    yield from _pool_reasons(need, snapshot)
    if not found.options:
        yield f"unit {need.unit.resources.id}: {_replicas_that_fit(found, snapshot)}"


def _replicas_that_fit(found: Candidates, snapshot: Snapshot) -> str:
    need, nodes = found.need, snapshot.nodes
    fitting = snapshot.index.fitting(need.requests, need.classes)
    cards = _matching_cards(found, snapshot)
    if need.gpu_units:
        fitting = [at for at in fitting if cards.get(at, 0) >= need.gpu_units]
    places = snapshot.index.how_many(fitting, need.requests)
    if need.gpu_units:
        places = [min(count, cards[at] // need.gpu_units) for at, count in zip(fitting, places, strict=True)]
    fit = sum(places)
    if fit >= need.count:
        return f"all {need.count} replicas need GPUs of one model, at most {found.most} fit with any model"
    lacks = ", ".join(
        f"{what} on {count}" for what, count in sorted(_lacking_on(need, snapshot, cards).items()) if count
    )
    result = f"{fit} of {need.count} replicas fit on {len(nodes)} nodes"
    return f"{result} (too little {lacks})" if lacks else result


def _matching_cards(found: Candidates, snapshot: Snapshot) -> dict[int, int]:
    """Position → the number of cards there that match the unit, of any model."""
    counts: dict[int, int] = {}
    if found.need.gpu_units:
        for card, positions in snapshot.index.cards.items():
            if found.choice_of(card) is not None:
                counts.update({at: counts.get(at, 0) + count for at, count in positions.items()})
    return counts


def _lacking_on(need: Need, snapshot: Snapshot, cards: Mapping[int, int]) -> dict[str, int]:
    """Resource → the number of nodes that have too little of it for one replica."""
    want, total = need.requests, len(snapshot.nodes)
    wants = (want.cpu_milli, want.memory_bytes, want.ephemeral_bytes, want.pods)
    lacks = {
        what: sum(have < asked for have in column)
        for what, column, asked in zip(_AMOUNTS, snapshot.index.columns, wants, strict=True)
    }
    for name in need.classes:
        lacks[f"storage class {name}"] = total - len(snapshot.index.classes.get(name, ()))
    if need.gpu_units:
        lacks["gpu"] = total - sum(count >= need.gpu_units for count in cards.values())
    return lacks


def _pools_together(needs: Sequence[Need], snapshot: Snapshot) -> Iterator[str]:
    """The storage classes that the units exceed only in sum."""
    for name, size in volumes_of(needs).items():
        free = snapshot.pools.get(name, 0)
        if free < size and all(need.volumes.get(name, 0) * need.count <= free for need in needs):
            yield f"storage class {name} has {free} bytes free, the units need {size} together"


def _pool_reasons(need: Need, snapshot: Snapshot) -> Iterator[str]:
    """What the storage pools lack for this unit."""
    unit = need.unit.resources.id
    for storage_class, size in need.volumes.items():
        free = snapshot.pools.get(storage_class)
        if free is None:
            yield f"unit {unit}: there is no storage class {storage_class}"
        elif free < size * need.count:
            yield f"unit {unit}: storage class {storage_class} has {free} bytes free, {size * need.count} needed"


def lacking(spec: GroupSpec, snapshot: Snapshot, *, overcommit: Overcommit) -> Mapping[str, tuple[str, ...]]:
    """Node → what it lacks for a replica of each unit, with numbers; nodes that take every unit are left out.

    It agrees with the decision: a node lacks nothing for a unit exactly when the matcher can place a replica on it.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    for need in needs_of(spec, overcommit):
        for node in snapshot.nodes:
            lacks = tuple(f"unit {need.unit.resources.id}: {each}" for each in _lacks(node, need))
            if lacks:
                nodes[node.name] = (*nodes.get(node.name, ()), *lacks)
    return nodes


def _lacks(node: Node, need: Need) -> Iterator[str]:
    """What the node lacks for one replica."""
    free, want = node.capacity, need.requests
    for what, have, asked in (
        ("cpu", free.cpu_milli, want.cpu_milli),
        ("memory", free.memory_bytes, want.memory_bytes),
        ("ephemeral storage", free.ephemeral_bytes, want.ephemeral_bytes),
        ("pods", free.pods, want.pods),
    ):
        if have < asked:
            yield f"{what}: {have} free, {asked} needed"
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
