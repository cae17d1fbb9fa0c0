"""Placement: the Go provider's vectors (bidding.md §8, 38–45, 64) and what it gets wrong."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Price, Resources, Volume
from provider.inventory.capacity import Capacity, Card, Overcommit
from provider.inventory.matcher import place
from provider.inventory.reservation import Reservation, Shortage
from provider.inventory.shortage import lacking
from provider.inventory.snapshot import Node, Snapshot

GI = 2**30
ORDER = OrderId("akash1tenant", 7, 1, 1)
A100 = Card("nvidia", "a100", "80Gi", "pcie")
T4 = Card("nvidia", "t4", "16Gi", "pcie")


def node(name: str, cpu: int, *cards: Card, memory: int = 512 * GI, disk: int = 2048 * GI, classes=()) -> Node:
    return Node(name, Capacity(cpu, memory, disk, 110), cards, tuple(classes))


def unit(
    cpu: int,
    *,
    gpu: int = 0,
    count: int = 1,
    gpus=("vendor/nvidia/model/a100",),
    volumes=None,
    ident: int = 1,
    memory=16 * GI,
):
    storage = (Volume("default", 8 * GI),) if volumes is None else tuple(volumes)
    attributes = tuple(Attribute(key, "true") for key in gpus) if gpu else ()
    resources = Resources(ident, cpu, memory, storage, gpu_units=gpu, gpu_attributes=attributes)
    return ResourceUnit(resources, count, Price("uact", Decimal(100)))


def group(*units: ResourceUnit) -> GroupSpec:
    numbered = (replace(one, resources=replace(one.resources, id=index)) for index, one in enumerate(units, start=1))
    return GroupSpec("westcoast", Requirements(), tuple(numbered))


def fit(
    snapshot: Snapshot, *units: ResourceUnit, overcommit: Overcommit | None = None, prefer=()
) -> Reservation | Shortage:
    return place(ORDER, group(*units), snapshot=snapshot, overcommit=overcommit or Overcommit(), prefer=prefer)


FOUR = Snapshot((node("node1", 68780), node("node2", 68800, A100, A100), node("node3", 119525), node("node4", 119495)))


@pytest.mark.parametrize(
    ("cpu", "gpu", "count", "fits"),
    [
        (100000, 0, 2, True),
        (68780, 0, 4, True),
        (68800, 0, 3, True),
        (119495, 0, 2, True),
        (68780, 0, 1, True),
        (68780, 1, 1, True),
        (70000, 0, 4, False),
        (100000, 0, 3, False),
        (119525, 0, 2, False),
    ],
)
def test_the_go_providers_placement_vectors_hold(cpu: int, gpu: int, count: int, fits: bool) -> None:
    assert isinstance(fit(FOUR, unit(cpu, gpu=gpu, count=count)), Reservation if fits else Shortage)


def test_a_unit_with_a_card_leaves_the_other_nodes_to_a_unit_without() -> None:
    found = fit(FOUR, unit(68700), unit(68700, gpu=1))
    assert isinstance(found, Reservation)
    assert found.nodes[2] == ("node2",)
    assert found.placements[1] is None
    assert found.placements[2] is not None
    assert (found.placements[2].vendor, found.placements[2].model) == ("nvidia", "a100")


def test_an_order_without_cards_has_a_null_placement_for_each_unit() -> None:
    found = fit(FOUR, unit(100000, count=2))
    assert isinstance(found, Reservation)
    assert found.placements == {1: None}


def test_a_wildcard_is_not_narrowed_by_a_node_that_then_fails() -> None:
    """The Go engine keeps t4 from node A and refuses (bidding.md §8, 64)."""
    nodes = Snapshot((node("a", 64000, T4, memory=GI), node("b", 64000, A100)))
    found = fit(nodes, unit(1000, gpu=1, gpus=("vendor/nvidia/model/*",)))
    assert isinstance(found, Reservation)
    assert found.nodes == {1: ("b",)}
    assert found.offer[0].resources.gpu_attributes == (Attribute("vendor/nvidia/model/a100", "true"),)


@pytest.mark.parametrize(("second", "fits"), [(A100, False), (T4, True)])
def test_all_replicas_of_a_unit_get_one_model(second: Card, fits: bool) -> None:
    nodes = Snapshot((node("a", 64000, T4), node("b", 64000, second)))
    found = fit(nodes, unit(1000, gpu=1, count=2, gpus=("vendor/nvidia/model/*",)))
    assert isinstance(found, Reservation if fits else Shortage)


def test_a_card_is_given_once() -> None:
    """The Go engine counts all cards of a node for every model (bidding.md §4.5)."""
    nodes = Snapshot((node("a", 64000, A100, T4),))
    assert isinstance(fit(nodes, unit(1000, gpu=2)), Shortage)
    assert isinstance(fit(nodes, unit(1000, gpu=1), unit(1000, gpu=1, gpus=("vendor/nvidia/model/t4",))), Reservation)
    assert isinstance(fit(nodes, unit(1000, gpu=1), unit(1000, gpu=1)), Shortage)


def test_the_pattern_yields_to_the_unit_that_names_its_model() -> None:
    """A unit that takes any card must not take the only one that another unit needs."""
    nodes = Snapshot((node("a", 64000, A100, T4),))
    found = fit(nodes, unit(1000, gpu=1, gpus=("vendor/nvidia/model/*",)), unit(1000, gpu=1))
    assert isinstance(found, Reservation)
    assert {key: kind.model for key, kind in found.placements.items() if kind} == {1: "t4", 2: "a100"}


@pytest.mark.parametrize(
    ("key", "card", "fits"),
    [
        ("vendor/nvidia/model/a100/ram/80Gi", A100, True),
        ("vendor/nvidia/model/a100/ram/81920Mi", A100, True),
        ("vendor/nvidia/model/a100/ram/40Gi", A100, False),
        ("vendor/nvidia/model/a100/interface/pcie", A100, True),
        ("vendor/nvidia/model/a100/interface/sxm", A100, False),
        ("vendor/nvidia/model/a100/interface/sxm", replace(A100, interface="SXM4"), True),
        ("vendor/amd/model/*", A100, False),
        ("vendor/nvidia/model/h100", A100, False),
        ("vendor/nvidia/model", A100, False),
        ("model/a100/vendor/nvidia", A100, False),
    ],
)
def test_a_card_matches_what_was_asked_for(key: str, card: Card, fits: bool) -> None:
    found = fit(Snapshot((node("a", 64000, card),)), unit(1000, gpu=1, gpus=(key,)))
    assert isinstance(found, Reservation if fits else Shortage)


def test_memory_size_and_interface_are_pinned_only_where_asked_for() -> None:
    found = fit(Snapshot((node("a", 64000, A100),)), unit(1000, gpu=1, gpus=("vendor/nvidia/model/a100/ram/80Gi",)))
    assert isinstance(found, Reservation)
    assert found.placements[1] is not None
    assert (found.placements[1].memory_size, found.placements[1].interface) == ("80Gi", "")
    assert found.offer[0].resources.gpu_attributes == (Attribute("vendor/nvidia/model/a100/ram/80Gi", "true"),)


def test_the_nonexistent_model_first_in_the_list_does_not_hide_the_one_that_exists() -> None:
    keys = ("vendor/nvidia/model/none", "vendor/nvidia/model/a100", "vendor/nvidia/model/t4")
    found = fit(Snapshot((node("a", 64000, T4),)), unit(1000, gpu=1, gpus=keys))
    assert isinstance(found, Reservation)
    assert found.placements[1] is not None
    assert found.placements[1].model == "t4"


def persistent(storage_class: str, size: int = 10 * GI) -> Volume:
    return Volume("data", size, (Attribute("class", storage_class), Attribute("persistent", "true")))


POOLED = Snapshot((node("a", 64000, classes=("beta2",)), node("b", 64000)), pools={"beta2": 25 * GI})


@pytest.mark.parametrize(
    ("volumes", "count", "word"),
    [
        ((persistent("beta2"),), 2, None),
        ((persistent("beta2"),), 3, "26843545600 bytes free"),
        ((persistent("beta3"),), 1, "no storage class beta3"),
        ((persistent(""),), 1, "cannot have the class ''"),
        ((persistent("ram"),), 1, "cannot have the class 'ram'"),
    ],
)
def test_a_volume_needs_its_class_on_the_node_and_room_in_its_pool(volumes, count, word) -> None:
    found = fit(POOLED, unit(100, count=count, volumes=volumes))
    if word is None:
        assert isinstance(found, Reservation)
        assert found.nodes == {1: ("a", "a")}
        assert found.volumes == {"beta2": 20 * GI}
    else:
        assert isinstance(found, Shortage)
        assert word in " ".join(found.reasons)


def test_a_ram_volume_takes_memory_and_an_unclassed_one_takes_disk() -> None:
    ram = Volume("shm", 2 * GI, (Attribute("class", "ram"), Attribute("persistent", "false")))
    room = Snapshot((node("a", 64000, memory=3 * GI, disk=GI),))
    assert isinstance(fit(room, unit(100, volumes=(ram,), memory=GI)), Reservation)
    assert isinstance(fit(room, unit(100, volumes=(ram,), memory=GI + 1)), Shortage)
    assert isinstance(fit(room, unit(100, volumes=(Volume("root", GI + 1),), memory=GI)), Shortage)


@pytest.mark.parametrize(
    ("rented", "percent", "committed"),
    [(100, 0, 100), (100, 100, 50), (100, 200, 33), (1001, 100, 501), (1, 10000, 1), (1000, 50, 667), (0, 50, 0)],
)
def test_overcommit_is_a_true_percentage_rounded_half_up(rented: int, percent: int, committed: int) -> None:
    assert Overcommit(cpu=percent).cpu_milli(rented) == committed


def test_overcommit_shrinks_what_is_promised_and_offered() -> None:
    found = fit(Snapshot((node("a", 1000),)), unit(2000), overcommit=Overcommit(cpu=100))
    assert isinstance(found, Reservation)
    assert found.replicas[0].requests.cpu_milli == 1000
    assert found.offer[0].resources.cpu_milli == 1000
    assert found.group_spec.units[0].resources.cpu_milli == 2000


def test_a_shortage_says_what_each_node_lacks() -> None:
    found = fit(FOUR, unit(100000, gpu=1))
    assert isinstance(found, Shortage)
    assert lacking(group(unit(100000, gpu=1)), FOUR, overcommit=Overcommit())["node1"] == (
        "unit 1: cpu: 68780 free, 100000 needed",
        "unit 1: gpu: 0 free that match, 1 needed (wanted nvidia a100; free none)",
    )
    assert found.reasons == ("unit 1: 0 of 1 replicas fit on 4 nodes (too little cpu on 2, gpu on 3)",)


def test_units_that_fit_one_by_one_but_not_together_are_told_so() -> None:
    found = fit(Snapshot((node("a", 1000),)), unit(600), unit(600))
    assert isinstance(found, Shortage)
    assert found.reasons == ("each unit fits alone, but they do not fit together",)


def test_a_node_takes_no_more_pods_than_its_kubelet() -> None:
    full = Snapshot((Node("a", Capacity(64000, 64 * GI, 64 * GI, 1)),))
    assert isinstance(fit(full, unit(100, memory=GI, volumes=()), unit(100, memory=GI, volumes=())), Shortage)


def test_the_preferred_model_is_tried_first() -> None:
    nodes = Snapshot((node("a", 64000, T4), node("b", 64000, A100)))
    any_card = unit(1000, gpu=1, gpus=("vendor/nvidia/model/*",))
    plain, preferred = fit(nodes, any_card), fit(nodes, any_card, prefer=[("nvidia", "a100")])
    assert isinstance(plain, Reservation)
    assert isinstance(preferred, Reservation)
    assert (plain.nodes[1], preferred.nodes[1]) == (("a",), ("b",))


def test_a_hostile_order_costs_a_bounded_search() -> None:
    """Twenty units that take any of twenty models of which one card each is there, but one card short."""
    cards = (*(Card("nvidia", f"m{index}") for index in range(19)), Card("amd", "mi100"))
    units = [unit(10, gpu=1, gpus=("vendor/nvidia/model/*",), memory=GI, volumes=()) for _ in range(20)]
    assert isinstance(fit(Snapshot((node("a", 64000, *cards),)), *units), Shortage)
