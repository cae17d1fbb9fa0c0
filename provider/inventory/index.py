"""The free capacity in columns, so that one list comprehension compares a thousand nodes with an order.

A snapshot has one index, and each part is computed when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from provider.inventory.capacity import Capacity, Card

__all__ = ["Index"]


_MANY = 1_000_000


class _Node(Protocol):
    @property
    def capacity(self) -> Capacity: ...
    @property
    def cards(self) -> tuple[Card, ...]: ...
    @property
    def storage_classes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Index:
    """A position is the index of a node in `nodes`."""

    nodes: Sequence[_Node]

    @cached_property
    def columns(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Milli-CPU, bytes of memory, bytes of ephemeral storage, pods."""
        found = [node.capacity for node in self.nodes]
        return (
            [one.cpu_milli for one in found],
            [one.memory_bytes for one in found],
            [one.ephemeral_bytes for one in found],
            [one.pods for one in found],
        )

    @cached_property
    def cards(self) -> dict[Card, dict[int, int]]:
        """Card → position → how many such cards are free there."""
        alike: dict[tuple[Card, ...], list[int]] = {}
        for position, node in enumerate(self.nodes):
            if node.cards:
                alike.setdefault(node.cards, []).append(position)
        found: dict[Card, dict[int, int]] = {}
        for cards, positions in alike.items():
            for card in dict.fromkeys(cards):
                found.setdefault(card, {}).update(dict.fromkeys(positions, cards.count(card)))
        return found

    @cached_property
    def classes(self) -> dict[str, frozenset[int]]:
        """Storage class → positions of the nodes that have it."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for position, node in enumerate(self.nodes):
            alike.setdefault(node.storage_classes, []).append(position)
        found: dict[str, set[int]] = {}
        for names, positions in alike.items():
            for name in names:
                found.setdefault(name, set()).update(positions)
        return {name: frozenset(positions) for name, positions in found.items()}

    def fitting(self, want: Capacity, classes: Iterable[str]) -> list[int]:
        """The positions of the nodes that have `want` free and all the storage classes."""
        cpu, memory, ephemeral, pods = want.cpu_milli, want.memory_bytes, want.ephemeral_bytes, want.pods
        found = [
            position
            for position, (a, b, c, d) in enumerate(zip(*self.columns, strict=True))
            if a >= cpu and b >= memory and c >= ephemeral and d >= pods
        ]
        for name in classes:
            having = self.classes.get(name, frozenset())
            found = [position for position in found if position in having]
        return found

    def how_many(self, positions: Sequence[int], want: Capacity) -> list[int]:
        """How many times `want` fits at each position; a large number when it is zero."""
        wants = (want.cpu_milli, want.memory_bytes, want.ephemeral_bytes, want.pods)
        pairs = [(column, asked) for column, asked in zip(self.columns, wants, strict=True) if asked]
        if not pairs:
            return [_MANY] * len(positions)
        parts = [[column[at] // asked for at in positions] for column, asked in pairs]
        return list(map(min, *parts)) if len(parts) > 1 else parts[0]
