"""Placement: where the replicas of an order would go (bidding.md §4.4–4.5, without its defects).

One matcher for the decision, the reservation, the pod's affinity and the explanation. Unlike the Go provider's it
tracks single cards, does not carry a choice of card from a node that failed to the next, and tries the units in more
than one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lease.groups import GroupSpec
from lease.ids import OrderId
from lease.spec import GpuPlacement
from provider.inventory.capacity import Card, Overcommit
from provider.inventory.needs import Need, leased_ips, needs_of, offered_as
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.shortage import explain
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["place"]

_MAX_FILLS = 400
"""Fills tried before giving up: enough for every combination of five units with three kinds of card."""


@dataclass(slots=True)
class _Search:
    """One attempt: what it looks at, and how often it has filled."""

    snapshot: Snapshot
    prefer: frozenset[tuple[str, str]]
    fills: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """`rooms` are the nodes changed so far. Never changed in place, so going back costs nothing."""

    rooms: dict[str, Node]
    pools: dict[str, int]
    placements: dict[int, GpuPlacement | None]
    replicas: tuple[Replica, ...] = ()


def place(
    order: OrderId,
    spec: GroupSpec,
    *,
    snapshot: Snapshot,
    overcommit: Overcommit,
    prefer: Sequence[tuple[str, str]] = (),
) -> Reservation | Shortage:
    """A reservation that fits `snapshot`, or why there is none. `prefer`: (vendor, model) tried first, for leases
    that run.
    """
    needs = needs_of(spec, overcommit)
    search = _Search(snapshot, frozenset(prefer))
    if not any(need.impossible for need in needs):
        for ordered in _orders(needs):
            start = _Plan(rooms={}, pools=dict(snapshot.pools), placements={})
            plan = _assign(search, ordered, start)
            if plan is not None:
                return _reservation(order, spec, needs, plan)
    return explain(needs, snapshot)


def _orders(needs: Sequence[Need]) -> Iterator[tuple[Need, ...]]:
    """Largest first, which packs best; then last to first, which finds whatever the Go provider finds."""
    largest = tuple(sorted(needs, key=lambda need: need.weight, reverse=True))
    last_first = tuple(reversed(needs))
    yield largest
    if last_first != largest:
        yield last_first


def _assign(search: _Search, needs: Sequence[Need], plan: _Plan) -> _Plan | None:
    """Place the first need with each kind of card it may have, and then the others."""
    if not needs:
        return plan
    for kind in _kinds(search, needs[0]):
        search.fills += 1
        if search.fills > _MAX_FILLS:
            return None
        filled = _fill(search.snapshot, needs[0], kind, plan)
        done = _assign(search, needs[1:], filled) if filled is not None else None
        if done is not None:
            return done
    return None


def _kinds(search: _Search, need: Need) -> list[GpuPlacement | None]:
    """Every kind of card the need accepts, preferred ones first, then as the nodes come."""
    if not need.gpu_units:
        return [None]
    cards = dict.fromkeys(card for node in search.snapshot.nodes for card in node.cards)
    kinds = dict.fromkeys(kind for card in cards if (kind := offered_as(card, need.gpus)) is not None)
    return [*sorted(kinds, key=lambda kind: (kind.vendor, kind.model) not in search.prefer)]


def _fill(snapshot: Snapshot, need: Need, kind: GpuPlacement | None, plan: _Plan) -> _Plan | None:
    """All replicas of `need` on the first nodes that take them, or None."""
    pools = dict(plan.pools)
    for storage_class, size in need.volumes.items():
        pools[storage_class] = pools.get(storage_class, 0) - size * need.count
        if pools[storage_class] < 0:
            return None
    rooms, replicas, left = dict(plan.rooms), list(plan.replicas), need.count
    fitting = _Fitting(need, kind)
    for original in snapshot.nodes:
        if not left:
            break
        node = rooms.get(original.name, original)
        count = min(left, _how_many(node, need, fitting))
        if count:
            rooms[node.name] = _fill_node(node, need, fitting, count=count, into=replicas)
            left -= count
    if left:
        return None
    return _Plan(rooms, pools, {**plan.placements, need.unit.resources.id: kind}, tuple(replicas))


class _Fitting(dict[Card, bool]):
    """Whether a card is of the chosen kind; a thousand nodes have few different cards."""

    def __init__(self, need: Need, kind: GpuPlacement | None) -> None:
        super().__init__()
        self._need, self._kind = need, kind

    def __missing__(self, card: Card) -> bool:
        self[card] = self._kind is not None and offered_as(card, self._need.gpus) == self._kind
        return self[card]


def _how_many(node: Node, need: Need, fitting: _Fitting) -> int:
    count = node.room.how_many(need.room)
    if not count or not need.classes.issubset(node.storage_classes):
        return 0
    if not need.gpu_units:
        return count
    return min(count, sum(fitting[card] for card in node.cards) // need.gpu_units)


def _fill_node(node: Node, need: Need, fitting: _Fitting, *, count: int, into: list[Replica]) -> Node:
    cards: list[Card] = [card for card in node.cards if fitting[card]] if need.gpu_units else []
    left = list(node.cards)
    for index in range(count):
        mine = tuple(cards[index * need.gpu_units : (index + 1) * need.gpu_units])
        for card in mine:
            left.remove(card)
        into.append(Replica(need.unit.resources.id, node.name, need.requests, ram_bytes=need.ram_bytes, cards=mine))
    return replace(node, room=node.room.minus(need.room.times(count)), cards=tuple(left))


def _reservation(order: OrderId, spec: GroupSpec, needs: Sequence[Need], plan: _Plan) -> Reservation:
    volumes: dict[str, int] = {}
    for need in needs:
        for storage_class, size in need.volumes.items():
            volumes[storage_class] = volumes.get(storage_class, 0) + size * need.count
    return Reservation(
        order=order,
        group_spec=spec,
        placements=plan.placements,
        replicas=plan.replicas,
        offer=tuple(need.offer(plan.placements[need.unit.resources.id]) for need in needs),
        volumes=volumes,
        leased_ips=leased_ips(spec),
    )
