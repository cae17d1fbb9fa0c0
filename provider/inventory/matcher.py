"""Placement: where the replicas of an order would go (bidding.md §4.4–4.5, without its defects).

One matcher for the decision, the reservation, the pod's affinity and the explanation. Unlike the Go provider's it
tracks single cards, does not carry a choice of card from a node that failed to the next, and goes back where a choice
was wrong. One look at the nodes a unit decides what cannot fit at all; a search follows only where every unit fits
alone, and its length is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lease.groups import GroupSpec
from lease.ids import OrderId
from lease.spec import GpuPlacement
from provider.inventory.capacity import Capacity, Overcommit
from provider.inventory.needs import Need, leased_ips, needs_of, volumes_of
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.shortage import NOT_TOGETHER, shortage
from provider.inventory.snapshot import Node, Snapshot
from provider.inventory.survey import Kind, Spots, Survey, places, survey

__all__ = ["place"]

_MAX_FILLS = 400
"""Fills tried greedily before the careful search: enough for every combination of five units with three cards."""
_FEWER_FILLS = 100
"""The same for the second and third order of units, which rarely help."""
_MAX_STEPS = 1500
"""Choices that the careful search makes: all there are with a few nodes and replicas."""
_MAX_CAREFUL_UNITS = 100
"""Units beyond which it is not begun: each is a call within the last."""
_MAX_SPOTS = 64
"""Nodes with room beyond which it is not begun: there, going through all ways would be hopeless."""


@dataclass(slots=True)
class _Search:
    """A survey a unit, in the order of the units; the kinds of card that each may have; how much may be tried yet."""

    surveys: list[Survey]
    options: list[dict[Kind, Spots]]
    fills: int = _MAX_FILLS
    steps: int = _MAX_STEPS


@dataclass(frozen=True, slots=True)
class _Plan:
    """`rooms` are the nodes changed so far. Never changed in place, so going back costs nothing."""

    rooms: dict[str, Node] = field(default_factory=dict)
    kinds: dict[int, GpuPlacement | None] = field(default_factory=dict)
    replicas: tuple[Replica, ...] = ()


def place(
    order: OrderId,
    spec: GroupSpec,
    *,
    snapshot: Snapshot,
    overcommit: Overcommit,
    prefer: Sequence[tuple[str, str]] = (),
) -> Reservation | Shortage:
    """A reservation that fits `snapshot`, or why there is none. `prefer`: (vendor, model) tried first, for leases that
    run.
    """
    needs = needs_of(spec, overcommit)
    replicas = sum(need.count for need in needs)
    surveys = [survey(need, snapshot, others=replicas - need.count) for need in needs]
    found = shortage(surveys, snapshot)
    if found is not None:
        return found
    if _more_than_all(needs, snapshot):
        return Shortage((NOT_TOGETHER,))
    search = _Search(surveys, [_preferred(one.options, prefer) for one in surveys])
    plan = _greedy(search) or _careful(search)
    return Shortage((NOT_TOGETHER,)) if plan is None else _reservation(order, spec, needs, plan)


def _more_than_all(needs: Sequence[Need], snapshot: Snapshot) -> bool:
    """Whether the units need more in sum than all nodes have: then no search can end well."""
    asked = Capacity()
    for need in needs:
        asked = asked.plus(need.room.times(need.count))
    have = [sum(column) for column in snapshot.index.columns]
    cards = sum(sum(positions.values()) for positions in snapshot.index.cards.values())
    gpus = sum(need.gpu_units * need.count for need in needs)
    return gpus > cards or not Capacity(*have).holds(asked)


def _preferred(options: dict[Kind, Spots], prefer: Sequence[tuple[str, str]]) -> dict[Kind, Spots]:
    """Preferred cards first, then as the nodes come."""
    if not prefer:
        return options
    ordered = sorted(options, key=lambda kind: kind is None or (kind.vendor, kind.model) not in prefer)
    return {kind: options[kind] for kind in ordered}


def _largest_first(search: _Search) -> tuple[int, ...]:
    units = range(len(search.surveys))
    return tuple(sorted(units, key=lambda unit: search.surveys[unit].need.weight, reverse=True))


def _greedy(search: _Search) -> _Plan | None:
    """Largest first, which packs best; last to first, which finds whatever the Go provider finds; then the fullest
    nodes first.
    """
    largest, backwards = _largest_first(search), tuple(reversed(range(len(search.surveys))))
    for units in dict.fromkeys((largest, backwards)):
        plan = _assign(search, units, _Plan())
        if plan is not None:
            return plan
        search.fills = _FEWER_FILLS
    tight = [
        {kind: sorted(spots, key=lambda spot: spot[1]) for kind, spots in options.items()} for options in search.options
    ]
    return _assign(_Search(search.surveys, tight, _FEWER_FILLS), largest, _Plan())


def _assign(search: _Search, units: tuple[int, ...], plan: _Plan) -> _Plan | None:
    """Place the first unit with each kind of card it may have, and then the others."""
    if not units:
        return plan
    for kind, spots in search.options[units[0]].items():
        search.fills -= 1
        if search.fills < 0:
            return None
        filled = _fill(search.surveys[units[0]], kind, spots, plan)
        done = _assign(search, units[1:], filled) if filled is not None else None
        if done is not None:
            return done
    return None


def _fill(found: Survey, kind: Kind, spots: Spots, plan: _Plan) -> _Plan | None:
    """All replicas of a unit on the first nodes that take them, or None."""
    left, taken = found.need.count, []
    for node, most in spots:
        if not left:
            break
        now = plan.rooms.get(node.name)
        count = min(left, most if now is None else places(now, kind, found))
        if count:
            taken.append((now or node, count))
            left -= count
    return None if left else _with(plan, found, kind, taken)


def _careful(search: _Search) -> _Plan | None:
    """Every way to spread the replicas over the nodes, as long as the steps last: in a small cluster all of them."""
    if len(search.surveys) > _MAX_CAREFUL_UNITS:
        return None
    if any(len(spots) > _MAX_SPOTS for options in search.options for spots in options.values()):
        return None
    return _try_all(search, _largest_first(search), _Plan())


def _try_all(search: _Search, units: tuple[int, ...], plan: _Plan) -> _Plan | None:
    if not units:
        return plan
    found = search.surveys[units[0]]
    for kind, spots in search.options[units[0]].items():
        now = ((plan.rooms.get(node.name, node), kind) for node, _ in spots)
        left = [(node, places(node, kind, found)) for node, kind in now]
        for taken in _spreads(search, left, found.need.count):
            done = _try_all(search, units[1:], _with(plan, found, kind, taken))
            if done is not None:
                return done
    return None


def _spreads(search: _Search, spots: Spots, left: int) -> Iterator[Spots]:
    """Lists of nodes with counts that add up to `left`, most on the first nodes first."""
    if not left:
        yield []
        return
    rest = sum(count for _, count in spots)
    for index, (node, count) in enumerate(spots):
        if rest < left:
            return
        rest -= count
        for taken in range(min(left, count), 0, -1):
            search.steps -= 1
            if search.steps < 0:
                return
            for others in _spreads(search, spots[index + 1 :], left - taken):
                yield [(node, taken), *others]


def _with(plan: _Plan, found: Survey, kind: Kind, taken: Spots) -> _Plan:
    rooms, replicas = dict(plan.rooms), list(plan.replicas)
    for node, count in taken:
        rooms[node.name] = _fill_node(node, found, kind, count=count, into=replicas)
    return _Plan(rooms, {**plan.kinds, found.need.unit.resources.id: kind}, tuple(replicas))


def _fill_node(node: Node, found: Survey, kind: Kind, *, count: int, into: list[Replica]) -> Node:
    need = found.need
    plain = Replica(need.unit.resources.id, node.name, need.requests, ram_bytes=need.ram_bytes)
    room = node.room.minus(need.room.times(count))
    if not need.gpu_units:
        into.extend([plain] * count)
        return replace(node, room=room)
    cards = [card for card in node.cards if found.kind_of(card) == kind][: count * need.gpu_units]
    left = list(node.cards)
    for card in cards:
        left.remove(card)
    each = need.gpu_units
    into.extend(replace(plain, cards=tuple(cards[start : start + each])) for start in range(0, len(cards), each))
    return replace(node, room=room, cards=tuple(left))


def _reservation(order: OrderId, spec: GroupSpec, needs: Sequence[Need], plan: _Plan) -> Reservation:
    return Reservation(
        order=order,
        group_spec=spec,
        placements=plan.kinds,
        replicas=plan.replicas,
        offer=tuple(need.offer(plan.kinds[need.unit.resources.id]) for need in needs),
        volumes=volumes_of(needs),
        leased_ips=leased_ips(spec),
    )
