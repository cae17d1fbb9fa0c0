"""Placement against trying everything: in a small cluster a fit is found exactly if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Price, Resources
from provider.inventory.capacity import Capacity, Card, Overcommit
from provider.inventory.matcher import place
from provider.inventory.needs import Need, needs_of
from provider.inventory.reservation import Reservation, Shortage
from provider.inventory.shortage import lacking
from provider.inventory.snapshot import Node, Snapshot

ORDER = OrderId("akash1tenant", 7, 1, 1)
GI = 2**30
T4, A100, H100 = Card("nvidia", "t4", "16Gi", "pcie"), Card("nvidia", "a100"), Card("amd", "mi100")
KEYS = ("vendor/nvidia/model/*", "vendor/nvidia/model/t4", "vendor/amd/model/mi100")


def group(*wants: tuple[int, int, int, str]) -> GroupSpec:
    """(cpu, gpus, count, key) a unit."""
    units = (
        ResourceUnit(
            Resources(number, cpu, GI, (), gpu_units=gpu, gpu_attributes=(Attribute(key, "true"),) if gpu else ()),
            count,
            Price("uact", Decimal(1)),
        )
        for number, (cpu, gpu, count, key) in enumerate(wants, start=1)
    )
    return GroupSpec("g", Requirements(), tuple(units))


def cluster(*nodes: tuple[int, tuple[Card, ...]]) -> Snapshot:
    return Snapshot(
        tuple(
            Node(f"n{index}", Capacity(cpu, 64 * GI, 64 * GI, 110), cards) for index, (cpu, cards) in enumerate(nodes)
        )
    )


def fits_somehow(spec: GroupSpec, snapshot: Snapshot) -> bool:
    """Every replica on every node, each unit with every card: whether one of all these ways is possible."""
    needs = needs_of(spec, Overcommit())
    cards = list(dict.fromkeys(card for node in snapshot.nodes for card in node.cards))
    choices = [[card for card in cards if _serves(need, card)] if need.gpu_units else [None] for need in needs]
    return any(
        _way(needs, chosen, where, snapshot) for chosen in product(*choices) for where in _assignments(needs, snapshot)
    )


def _serves(need: Need, card: Card) -> bool:
    keys = {(card.vendor, card.model), (card.vendor, "*")}
    return bool(keys & set(need.gpus))


def _assignments(needs: tuple[Need, ...], snapshot: Snapshot) -> Iterator[tuple[int, ...]]:
    return product(range(len(snapshot.nodes)), repeat=sum(need.count for need in needs))


def _way(needs, chosen, where, snapshot: Snapshot) -> bool:
    cpu = [node.capacity.cpu_milli for node in snapshot.nodes]
    cards = [list(node.cards) for node in snapshot.nodes]
    spots = iter(where)
    for need, card in zip(needs, chosen, strict=True):
        for _ in range(need.count):
            at = next(spots)
            cpu[at] -= need.requests.cpu_milli
            if cpu[at] < 0 or cards[at].count(card) < need.gpu_units:
                return False
            for _ in range(need.gpu_units):
                cards[at].remove(card)
    return True


def check(found: Reservation, spec: GroupSpec, snapshot: Snapshot) -> None:
    """Nothing is given twice, every replica has its place, and its cards are what was asked for."""
    for node in snapshot.nodes:
        mine = [replica for replica in found.replicas if replica.node == node.name]
        assert sum(replica.requests.cpu_milli for replica in mine) <= node.capacity.cpu_milli
        taken = [card for replica in mine for card in replica.cards]
        assert all(taken.count(card) <= node.cards.count(card) for card in taken)
    for need in needs_of(spec, Overcommit()):
        mine = [replica for replica in found.replicas if replica.resource_id == need.unit.resources.id]
        assert len(mine) == need.count
        assert len({(card.vendor, card.model) for replica in mine for card in replica.cards}) <= 1
        assert all(len(replica.cards) == need.gpu_units for replica in mine)


NODES = st.lists(
    st.tuples(st.integers(0, 10), st.lists(st.sampled_from([T4, A100, H100]), max_size=2).map(tuple)),
    min_size=1,
    max_size=3,
)
UNITS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 2), st.integers(1, 2), st.sampled_from(KEYS)), min_size=1, max_size=3
)


@settings(max_examples=150, deadline=None)
@given(NODES, UNITS)
def test_a_fit_is_found_exactly_if_there_is_one(nodes, units) -> None:
    spec, snapshot = group(*units), cluster(*nodes)
    found = place(ORDER, spec, snapshot=snapshot, overcommit=Overcommit())
    assert isinstance(found, Reservation) == fits_somehow(spec, snapshot)
    if isinstance(found, Reservation):
        check(found, spec, snapshot)
    else:
        assert found.reasons


@pytest.mark.parametrize(
    ("nodes", "units"),
    [
        ([(10, ()), (6, ())], [(5, 0, 2, ""), (6, 0, 1, "")]),
        ([(6, ()), (10, ())], [(6, 0, 1, ""), (5, 0, 2, "")]),
        ([(7, ()), (8, ())], [(4, 0, 2, ""), (3, 0, 1, ""), (4, 0, 1, "")]),
        ([(10, (T4,)), (10, (A100,))], [(1, 1, 1, KEYS[0]), (1, 1, 1, KEYS[1])]),
        ([(1, (T4, T4)), (8, (A100,))], [(4, 1, 1, KEYS[0])]),
    ],
)
def test_a_packing_that_filling_greedily_misses_is_found(nodes, units) -> None:
    spec, snapshot = group(*units), cluster(*nodes)
    found = place(ORDER, spec, snapshot=snapshot, overcommit=Overcommit())
    assert isinstance(found, Reservation)
    check(found, spec, snapshot)


@given(NODES, st.tuples(st.integers(1, 6), st.integers(0, 2), st.just(1), st.sampled_from(KEYS)))
def test_what_is_told_of_each_node_is_what_the_matcher_does(nodes, unit) -> None:
    """One replica of one unit: declined exactly if every node has something against it."""
    spec, snapshot = group(unit), cluster(*nodes)
    against = lacking(spec, snapshot, overcommit=Overcommit())
    found = place(ORDER, spec, snapshot=snapshot, overcommit=Overcommit())
    mixed = isinstance(found, Shortage) and "one model" in found.reasons[0]
    assert mixed or isinstance(found, Shortage) == (len(against) == len(snapshot.nodes))


def test_a_unit_of_no_replicas_needs_nothing() -> None:
    """Count limits are no part of the rules (bidding.md §1.4); the Go provider just drops such a unit."""
    found = place(ORDER, group((1, 1, 0, KEYS[0]), (2, 0, 1, "")), snapshot=cluster((2, ())), overcommit=Overcommit())
    assert isinstance(found, Reservation)
    assert [replica.resource_id for replica in found.replicas] == [2]


def test_cards_that_are_spread_over_two_models_are_named_as_the_reason() -> None:
    found = place(ORDER, group((1, 1, 2, KEYS[0])), snapshot=cluster((9, (T4,)), (9, (A100,))), overcommit=Overcommit())
    assert isinstance(found, Shortage)
    assert found.reasons == ("unit 1: all 2 replicas need GPUs of one model, at most 1 fit with any model",)
