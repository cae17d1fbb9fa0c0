"""Placement: on which nodes the replicas of an order go (bidding.md §4.4–4.5, without its defects).

The decision, the reservation, the pod's affinity and the explanation use this one matcher. Unlike the Go provider's, it
counts single cards, does not keep the choice of a card when a node fails, and goes back after a wrong choice. The
candidates of each unit show what fits nowhere. A search follows only when every unit fits alone, and its length is
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.inventory.candidates import Candidates, GpuChoice, Places, candidates, replicas_on
from provider.inventory.capacity import Capacity, Overcommit
from provider.inventory.needs import Need, leased_ips, needs_of, node_ports, volumes_of
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.shortage import NOT_TOGETHER, shortage
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["place"]

_MAX_FILLS = 400
"""Fills of the greedy search: enough for every combination of five units with three cards."""
_FEWER_FILLS = 100
"""Fills for the second and the third order of the units, which rarely help."""
_MAX_STEPS = 1500
"""Steps of the careful search: with a few nodes and replicas, all that there are."""
_MAX_CAREFUL_UNITS = 100
"""With more units the careful search is not begun: it recurses once a unit."""
_MAX_PLACES = 64
"""With more candidate nodes the careful search is not begun: it would not get through all the ways."""


@dataclass(slots=True)
class _Search:
    """The candidates of each unit, the GPUs that each may have, and how much may still be tried."""

    units: list[Candidates]
    options: list[dict[GpuChoice, Places]]
    fills: int = _MAX_FILLS
    steps: int = _MAX_STEPS


@dataclass(frozen=True, slots=True)
class _Plan:
    """`nodes`: the nodes changed so far. A plan is never changed in place, so going back costs nothing."""

    nodes: dict[str, Node] = field(default_factory=dict)
    choices: dict[int, GpuChoice] = field(default_factory=dict)
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
    units = [candidates(need, snapshot, others=replicas - need.count) for need in needs]
    found = shortage(units, snapshot)
    if found is not None:
        return found
    if _more_than_all(needs, snapshot):
        return Shortage((NOT_TOGETHER,))
    search = _Search(units, [_preferred(one.options, prefer) for one in units])
    plan = _greedy(search) or _careful(search)
    return Shortage((NOT_TOGETHER,)) if plan is None else _reservation(order, spec, needs, plan)


def _more_than_all(needs: Sequence[Need], snapshot: Snapshot) -> bool:
    """Whether the units need more in sum than all nodes have; then no placement exists."""
    asked = Capacity()
    for need in needs:
        asked = asked.plus(need.requests.times(need.count))
    have = [sum(column) for column in snapshot.index.columns]
    cards = sum(sum(positions.values()) for positions in snapshot.index.cards.values())
    gpus = sum(need.gpu_units * need.count for need in needs)
    return gpus > cards or not Capacity(*have).holds(asked)


def _preferred(options: dict[GpuChoice, Places], prefer: Sequence[tuple[str, str]]) -> dict[GpuChoice, Places]:
    """Preferred cards first, then in the order of the nodes."""
    if not prefer:
        return options
    ordered = sorted(options, key=lambda choice: choice is None or (choice.vendor, choice.model) not in prefer)
    return {choice: options[choice] for choice in ordered}


def _largest_first(search: _Search) -> tuple[int, ...]:
    units = range(len(search.units))
    return tuple(sorted(units, key=lambda unit: search.units[unit].need.weight, reverse=True))


def _greedy(search: _Search) -> _Plan | None:
    """Three attempts: the largest unit first, which packs best; the last unit first, which finds every placement that
    the Go provider finds; the fullest nodes first.
    """
    largest, backwards = _largest_first(search), tuple(reversed(range(len(search.units))))
    for units in dict.fromkeys((largest, backwards)):
        plan = _assign(search, units, _Plan())
        if plan is not None:
            return plan
        search.fills = _FEWER_FILLS
    tight = [
        {choice: sorted(places, key=lambda item: item[1]) for choice, places in options.items()}
        for options in search.options
    ]
    return _assign(_Search(search.units, tight, _FEWER_FILLS), largest, _Plan())


def _assign(search: _Search, units: tuple[int, ...], plan: _Plan) -> _Plan | None:
    """Place the first unit with each GPU that it may have, and then the others."""
    if not units:
        return plan
    for choice, places in search.options[units[0]].items():
        search.fills -= 1
        if search.fills < 0:
            return None
        filled = _fill(search.units[units[0]], choice, places, plan)
        done = _assign(search, units[1:], filled) if filled is not None else None
        if done is not None:
            return done
    return None


def _fill(found: Candidates, choice: GpuChoice, places: Places, plan: _Plan) -> _Plan | None:
    """The plan with all replicas of a unit on the first nodes that take them, or None."""
    left, taken = found.need.count, []
    for node, most in places:
        if not left:
            break
        now = plan.nodes.get(node.name)
        count = min(left, most if now is None else replicas_on(now, choice, found))
        if count:
            taken.append((now or node, count))
            left -= count
    return None if left else _with(plan, found, choice, taken)


def _careful(search: _Search) -> _Plan | None:
    """Tries every way to spread the replicas over the nodes until the steps are used up: all ways in a small
    cluster.
    """
    if len(search.units) > _MAX_CAREFUL_UNITS:
        return None
    if any(len(places) > _MAX_PLACES for options in search.options for places in options.values()):
        return None
    return _try_all(search, _largest_first(search), _Plan())


def _try_all(search: _Search, units: tuple[int, ...], plan: _Plan) -> _Plan | None:
    if not units:
        return plan
    found = search.units[units[0]]
    for choice, places in search.options[units[0]].items():
        now = (plan.nodes.get(node.name, node) for node, _ in places)
        left = [(node, replicas_on(node, choice, found)) for node in now]
        for taken in _spreads(search, left, found.need.count):
            done = _try_all(search, units[1:], _with(plan, found, choice, taken))
            if done is not None:
                return done
    return None


def _spreads(search: _Search, places: Places, left: int) -> Iterator[Places]:
    """Lists of nodes with counts that add up to `left`. Lists with most replicas on the first nodes come first."""
    if not left:
        yield []
        return
    rest = sum(count for _, count in places)
    for index, (node, count) in enumerate(places):
        if rest < left:
            return
        rest -= count
        for taken in range(min(left, count), 0, -1):
            search.steps -= 1
            if search.steps < 0:
                return
            for others in _spreads(search, places[index + 1 :], left - taken):
                yield [(node, taken), *others]


def _with(plan: _Plan, found: Candidates, choice: GpuChoice, taken: Places) -> _Plan:
    nodes, replicas = dict(plan.nodes), list(plan.replicas)
    for node, count in taken:
        nodes[node.name] = _fill_node(node, found, choice, count=count, into=replicas)
    return _Plan(nodes, {**plan.choices, found.need.unit.resources.id: choice}, tuple(replicas))


def _fill_node(node: Node, found: Candidates, choice: GpuChoice, *, count: int, into: list[Replica]) -> Node:
    need = found.need
    plain = Replica(need.unit.resources.id, node.name, need.requests, ram_bytes=need.ram_bytes)
    left_over = node.capacity.minus(need.requests.times(count))
    if not need.gpu_units:
        into.extend([plain] * count)
        return replace(node, capacity=left_over)
    cards = [card for card in node.cards if found.choice_of(card) == choice][: count * need.gpu_units]
    left = list(node.cards)
    for card in cards:
        left.remove(card)
    each = need.gpu_units
    into.extend(replace(plain, cards=tuple(cards[start : start + each])) for start in range(0, len(cards), each))
    return replace(node, capacity=left_over, cards=tuple(left))


def _reservation(order: OrderId, spec: GroupSpec, needs: Sequence[Need], plan: _Plan) -> Reservation:
    return Reservation(
        order=order,
        group_spec=spec,
        placements=plan.choices,
        replicas=plan.replicas,
        offer=tuple(need.offer(plan.choices[need.unit.resources.id]) for need in needs),
        volumes=volumes_of(needs),
        leased_ips=leased_ips(spec),
        node_ports=node_ports(spec),
    )
