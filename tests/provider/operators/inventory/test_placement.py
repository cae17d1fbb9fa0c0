"""What is free in a published state, and orders placed in it (operators.md §10, items 13 to 20). Items 17 to 19 with
amounts of nodes that the market reads are in tests/provider/inventory/test_matcher.py too.
"""

from __future__ import annotations

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Price, Resources, Volume
from provider.inventory import reading
from provider.inventory.capacity import Capacity, Overcommit
from provider.inventory.ledger import free_snapshot
from provider.inventory.matcher import place
from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory
from provider.operators.inventory.facts import PodFacts, node_facts
from provider.operators.inventory.registry import bundled_registry
from provider.operators.inventory.state import ClusterState, Verdict, node_state
from provider.protocols.cluster import NODE, POD
from tests.provider.operators.inventory.world import World, cards, node, operating, pod

GI = 1 << 30
A100 = ("10de", "20b5")
MEMORY, DISK = "457317732352", "7760751097705"


def test_13_an_empty_cluster_has_no_nodes() -> None:
    assert ClusterState().nodes == ()


@pytest.mark.parametrize(
    ("amounts", "taken", "free"),
    [
        (("13", "14", "15"), Capacity(), (13000, 14, 15)),
        (("13", "2048", "4096"), Capacity(3000, 9, 51), (10000, 2039, 4045)),
    ],
)
def test_14_and_15_what_is_free_on_a_node(
    amounts: tuple[str, str, str], taken: Capacity, free: tuple[int, int, int]
) -> None:
    resources = dict(zip(("cpu", "memory", "ephemeral-storage"), amounts, strict=True))
    facts, pods = node_facts(node(resources=resources)), [PodFacts("n1", taken, 0, (False, False))]
    found = node_state(facts, None, pods, verdict=Verdict(True, {}), registry=bundled_registry())
    assert (found.cpu.available, found.memory.available, found.ephemeral.available) == free


async def four_nodes(world: World) -> None:
    """The fixture of item 16."""
    for name, cpu in (("node1", "68780m"), ("node2", "68800m"), ("node3", "119525m"), ("node4", "119495m")):
        gpus = {"nvidia.com/gpu": "2"} if name == "node2" else {}
        world.machines[name] = cards(*([A100, A100] if gpus else []))
        world.cluster.put(node(name, resources={"cpu": cpu, "memory": MEMORY, "ephemeral-storage": DISK, **gpus}))
    for name in ("node1", "node2"):
        world.cluster.put(pod(f"pod-{name}", on=name, memory="17495527424", ephemeral="8589934592"))


def unit(ident: int, cpu: int, gpu: int, count: int) -> ResourceUnit:
    """16 Gi of memory and 8 Gi of disk; item 20: the card is asked for as one attribute."""
    attributes = (Attribute("vendor/nvidia/model/a100", "true"),) if gpu else ()
    volumes = (Volume("default", 8 * GI),)
    resources = Resources(ident, cpu, 16 * GI, volumes, gpu_units=gpu, gpu_attributes=attributes)
    return ResourceUnit(resources, count, Price("uact", 1))  # type: ignore[arg-type]


@pytest.mark.virtual_time
async def test_16_to_19_the_market_places_what_fits_on_the_nodes_that_the_operator_labels() -> None:
    world = World()
    await four_nodes(world)
    async with operating(world):
        await world.clock.advance(2)
        nodes = [reading.node(one) for one in await world.cluster.list(NODE)]
        pods = [reading.scheduled_pod(one) for one in await world.cluster.list(POD, namespace="lease")]
        inventory = Inventory(nodes=tuple(filter(None, nodes)), pods=tuple(filter(None, pods)))
        snapshot = free_snapshot(inventory, (), provider="akash1provider")
    assert [one.name for one in snapshot.nodes] == ["node1", "node2", "node3", "node4"]

    def fits(*units: ResourceUnit) -> Reservation | None:
        spec = GroupSpec("g", Requirements(), units)
        found = place(OrderId("akash1tenant", 7, 1, 1), spec, snapshot=snapshot, overcommit=Overcommit())
        return found if isinstance(found, Reservation) else None

    good = [(100000, 0, 2), (68780, 0, 4), (68800, 0, 3), (119495, 0, 2), (68780, 0, 1), (68780, 1, 1)]
    assert [one for one in good if fits(unit(1, *one)) is None] == []
    assert [one for one in [(70000, 0, 4), (100000, 0, 3), (119525, 0, 2)] if fits(unit(1, *one))] == []
    both = fits(unit(1, 68700, 0, 1), unit(2, 68700, 1, 1))
    assert both is not None and both.placements[1] is None
    card = both.placements[2]
    assert card is not None and (card.vendor, card.model) == ("nvidia", "a100")
