"""The candidate nodes of one unit: where its replicas fit if the unit is alone.

A unit that fits nowhere is declined without a search for a placement of all units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from lease.spec import GpuPlacement
from provider.inventory.capacity import Card
from provider.inventory.needs import Need, offered_as
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["Candidates", "GpuChoice", "Places", "candidates", "replicas_on"]

GpuChoice: TypeAlias = GpuPlacement | None
"""The GPU that all replicas of a unit get; None without GPU."""
Places: TypeAlias = list[tuple[Node, int]]
"""Nodes, with the number of replicas that each takes, at least one."""


@dataclass(slots=True)
class Candidates:
    """`options`: the GPUs that all replicas of the unit could have, each with its nodes in their order. `most`: the
    most replicas that fit with one GPU model.
    """

    need: Need
    options: dict[GpuChoice, Places] = field(default_factory=dict)
    most: int = 0
    choices: dict[Card, GpuChoice] = field(default_factory=dict)

    def choice_of(self, card: Card) -> GpuChoice:
        """The choice that this card would serve. Kept, since a thousand nodes have few different cards."""
        if card not in self.choices:
            self.choices[card] = offered_as(card, self.need.gpus)
        return self.choices[card]


def candidates(need: Need, snapshot: Snapshot, *, others: int) -> Candidates:
    """The candidates of a unit. `others`: the number of replicas of the group's other units, which use at most so many
    nodes. Only as many nodes are listed as suffice whichever nodes those are.
    """
    found = Candidates(need)
    if need.impossible or not need.count:
        found.options = {} if need.impossible else {None: []}
        return found
    fitting = snapshot.index.fitting(need.requests, need.classes)
    choices = _by_cards(found, snapshot, set(fitting)) if need.gpu_units else {None: dict.fromkeys(fitting, 0)}
    for choice, cards in choices.items():
        places, total = _places(found, snapshot, cards, others=others)
        found.most = max(found.most, total)
        if total >= need.count:
            found.options[choice] = places
    return found


def replicas_on(node: Node, choice: GpuChoice, found: Candidates) -> int:
    """The number of replicas that `node` takes with this GPU."""
    need = found.need
    fits = node.capacity.how_many(need.requests)
    if not fits or not need.classes.issubset(node.storage_classes):
        return 0
    if not need.gpu_units:
        return fits
    return min(fits, sum(found.choice_of(card) == choice for card in node.cards) // need.gpu_units)


def _by_cards(found: Candidates, snapshot: Snapshot, fitting: set[int]) -> dict[GpuChoice, dict[int, int]]:
    """GPU → position of a node that fits → its cards of that model, at least as many as one replica needs."""
    counts: dict[GpuChoice, dict[int, int]] = {}
    for card, positions in snapshot.index.cards.items():
        choice = found.choice_of(card)
        if choice is not None:
            before = counts.setdefault(choice, {})
            before.update({at: before.get(at, 0) + positions[at] for at in positions.keys() & fitting})
    units = found.need.gpu_units
    return {choice: {at: each[at] for at in sorted(each) if each[at] >= units} for choice, each in counts.items()}


def _places(found: Candidates, snapshot: Snapshot, cards: dict[int, int], *, others: int) -> tuple[Places, int]:
    """The nodes at the positions of `cards`, or the first of them that suffice, and the number of replicas on them."""
    units, positions, counts = found.need.gpu_units, list(cards), list[int]()
    size = found.need.count + others
    while len(counts) < len(positions) and not _enough(counts, found.need.count, others):
        part = positions[len(counts) : len(counts) + size]
        fits = snapshot.index.how_many(part, found.need.requests)
        if units:
            fits = [min(count, cards[at] // units) for count, at in zip(fits, part, strict=True)]
        counts += fits
    places = [(snapshot.nodes[at], count) for at, count in zip(positions, counts, strict=False)]
    return places, sum(counts)


def _enough(counts: list[int], wanted: int, others: int) -> bool:
    """Whether the replicas fit even without the best `others` nodes."""
    return len(counts) > others and sum(sorted(counts)[: len(counts) - others]) >= wanted
