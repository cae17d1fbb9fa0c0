"""The order of waiting operations: the more urgent first, tenants in turn, and none waits for ever.

Urgency is not absolute. While a kind waits, others are served at most `PATIENCE` times in a row; then it is its turn.
Within a kind each tenant has one turn a round, whatever the number of the tenant's operations.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from stacks.common.priority import Priority

__all__ = ["PATIENCE", "Turns"]

PATIENCE: Mapping[Priority, int] = {Priority.UPDATE: 4, Priority.DESTROY: 4, Priority.REPAIR: 16}
"""How often others are served while this kind waits; the most urgent kind needs no number, since it is next anyway.

One in 5, one in 5 and one in 17 leave the first deployments more than half of all turns, whatever else waits. A kind
whose turn has come may still wait for two other kinds whose turn has come too, so that the first of its kind is
overtaken by other kinds at most `PATIENCE` + 2 times (a first deployment 3 times).
"""
_Item = TypeVar("_Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[_Item]):
    item: _Item
    since: float


_Tenants = OrderedDict[str, deque[_Waiting[_Item]]]
"""Tenants in the order of their turns, each with the waiting operations."""


class Turns(Generic[_Item]):
    """A queue of distinct items. It knows no clock and no process; `since` and `now` are of any one clock."""

    def __init__(self) -> None:
        self._kinds: dict[Priority, OrderedDict[str, deque[_Waiting[_Item]]]] = {
            kind: OrderedDict() for kind in Priority
        }
        self._places: dict[_Item, tuple[Priority, str]] = {}
        self._passed = dict.fromkeys(PATIENCE, 0)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, item: _Item, *, priority: Priority, tenant: str, since: float) -> None:
        """Append to the items of this tenant. Raises `ValueError` if the item waits already."""
        if item in self._places:
            raise ValueError("the item waits already")
        self._places[item] = (priority, tenant)
        self._kinds[priority].setdefault(tenant, deque()).append(_Waiting(item, since))

    def drop(self, item: _Item) -> bool:
        """Remove a waiting item; False if it did not wait."""
        place = self._places.pop(item, None)
        if place is None:
            return False
        kind, tenant = place
        left = deque(waiting for waiting in self._kinds[kind][tenant] if waiting.item != item)
        if left:
            self._kinds[kind][tenant] = left
        else:
            self._leave(kind, tenant)
        return True

    def next(self) -> _Item | None:
        """The item whose turn it is, removed from the queue; None if none waits."""
        kind = self._whose()
        if kind is None:
            return None
        for other in self._passed:
            self._passed[other] = self._passed[other] + 1 if other is not kind and self._kinds[other] else 0
        tenants = self._kinds[kind]
        tenant = next(iter(tenants))
        item = tenants[tenant].popleft().item
        del self._places[item]
        if tenants[tenant]:
            tenants.move_to_end(tenant)
        else:
            self._leave(kind, tenant)
        return item

    def depths(self) -> dict[Priority, int]:
        """The number of waiting items of every kind."""
        return {kind: sum(map(len, tenants.values())) for kind, tenants in self._kinds.items()}

    def oldest(self, now: float) -> float:
        """How long the longest waiting item has waited; 0 if none waits."""
        heads = [waiting[0].since for tenants in self._kinds.values() for waiting in tenants.values()]
        return max(0.0, now - min(heads)) if heads else 0.0

    def _whose(self) -> Priority | None:
        waiting = [kind for kind in Priority if self._kinds[kind]]
        due = [kind for kind in waiting if kind in PATIENCE and self._passed[kind] >= PATIENCE[kind]]
        return next(iter(due or waiting), None)

    def _leave(self, kind: Priority, tenant: str) -> None:
        del self._kinds[kind][tenant]
        if not self._kinds[kind] and kind in self._passed:
            self._passed[kind] = 0
