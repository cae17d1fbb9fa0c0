"""One look at all nodes for one unit: where its replicas would fit if it were alone.

Whatever fits nowhere is declined after it, without a search.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from lease.spec import GpuPlacement
from provider.inventory.capacity import Card
from provider.inventory.needs import Need, offered_as
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["Kind", "Spots", "Survey", "places", "survey"]

Kind: TypeAlias = GpuPlacement | None
"""The card that all replicas of a unit get; None without GPU."""
Spots: TypeAlias = list[tuple[Node, int]]
"""Nodes with how many replicas each takes, at least one."""


@dataclass(slots=True)
class Survey:
    """`options`: the kinds of card that all replicas could have, were the unit alone, with the nodes in their order.
    `most`: replicas that fit with one kind at best.
    """

    need: Need
    options: dict[Kind, Spots] = field(default_factory=dict)
    most: int = 0
    kinds: dict[Card, Kind] = field(default_factory=dict)

    def kind_of(self, card: Card) -> Kind:
        """As what the need would use this card; a thousand nodes have few different cards."""
        if card not in self.kinds:
            self.kinds[card] = offered_as(card, self.need.gpus)
        return self.kinds[card]


def survey(need: Need, snapshot: Snapshot, *, others: int) -> Survey:
    """`others`: replicas of the group's other units, which take at most as many nodes away. Nodes beyond those that
    suffice whichever these are need not be listed.
    """
    found = Survey(need)
    if need.impossible or not need.count:
        found.options = {} if need.impossible else {None: []}
        return found
    fitting = snapshot.index.fitting(need.room, need.classes)
    kinds = _by_cards(found, snapshot, set(fitting)) if need.gpu_units else {None: dict.fromkeys(fitting, 0)}
    for kind, cards in kinds.items():
        spots, total = _spots(found, snapshot, cards, others=others)
        found.most = max(found.most, total)
        if total >= need.count:
            found.options[kind] = spots
    return found


def places(node: Node, kind: Kind, found: Survey) -> int:
    """Replicas that `node` takes with cards of this kind."""
    need = found.need
    fits = node.room.how_many(need.room)
    if not fits or not need.classes.issubset(node.storage_classes):
        return 0
    if not need.gpu_units:
        return fits
    return min(fits, sum(found.kind_of(card) == kind for card in node.cards) // need.gpu_units)


def _by_cards(found: Survey, snapshot: Snapshot, fitting: set[int]) -> dict[Kind, dict[int, int]]:
    """Kind of card → position of a node with room → cards of it there, at least as many as one replica needs."""
    counts: dict[Kind, dict[int, int]] = {}
    for card, positions in snapshot.index.cards.items():
        kind = found.kind_of(card)
        if kind is not None:
            before = counts.setdefault(kind, {})
            before.update({at: before.get(at, 0) + positions[at] for at in positions.keys() & fitting})
    units = found.need.gpu_units
    return {kind: {at: each[at] for at in sorted(each) if each[at] >= units} for kind, each in counts.items()}


def _spots(found: Survey, snapshot: Snapshot, cards: dict[int, int], *, others: int) -> tuple[Spots, int]:
    """The nodes at the positions of `cards`, or the first of them that are enough; and replicas in all."""
    units, positions, counts = found.need.gpu_units, list(cards), list[int]()
    size = found.need.count + others
    while len(counts) < len(positions) and not _enough(counts, found.need.count, others):
        part = positions[len(counts) : len(counts) + size]
        fits = snapshot.index.how_many(part, found.need.room)
        if units:
            fits = [min(count, cards[at] // units) for count, at in zip(fits, part, strict=True)]
        counts += fits
    spots = [(snapshot.nodes[at], count) for at, count in zip(positions, counts, strict=False)]
    return spots, sum(counts)


def _enough(counts: list[int], wanted: int, others: int) -> bool:
    """Whether there is room even without the best `others` nodes."""
    return len(counts) > others and sum(sorted(counts)[: len(counts) - others]) >= wanted
