"""Reasons of declined orders are counted, in store and metric; what is advertised is compared with the nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lease.resources import Attribute
from provider.inventory.capacity import Card
from provider.inventory.snapshot import Inventory, Node
from provider.market.advertised import log_unmatched, unmatched
from provider.market.bidding import consider
from provider.market.reconcile import full_pass
from provider.market.record.summary import summary_since
from provider.metrics import REGISTRY
from tests.provider.market.world import ATTRIBUTES, RECORD, US, World, make_inventory, make_order, make_world
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = MemoryDatabase(tmp_path / "x.db")
    yield make_world(database)
    await database.close()


def counted(check: str) -> float:
    return REGISTRY.get_sample_value("lessor_declined_total", {"check": check}) or 0.0


async def test_declined_orders_are_summed_up_by_the_check_that_failed(world: World) -> None:
    market = replace(world.market, rules=replace(world.market.rules, denoms=("uakt",)))
    before = counted("denom"), counted("capacity")
    for dseq, cpu in ((1, 1000), (2, 1000), (3, 8_000)):
        await consider(market, make_order(dseq, cpu=cpu))
    found = await summary_since(world.database, market.clock.now() - 3600)
    assert (found.bids, found.declined, found.whole) == (0, 3, True)
    assert {name: check.orders for name, check in found.failed.items()} == {"denom": 3, "capacity": 1}
    assert found.failed["denom"].last.startswith("the order pays in uact, this provider bids in uakt")
    assert (counted("denom") - before[0], counted("capacity") - before[1]) == (3, 1)


async def test_an_order_counts_once_for_a_reason_however_often_it_is_decided_about(world: World) -> None:
    paused = ["the wallet is empty"]
    market = replace(world.market, paused=lambda: paused[0])
    order = make_order(cpu=8_000)
    world.chain.add_order(order)
    await consider(market, order)
    paused[0] = ""
    await consider(market, order)
    paused[0] = "the cluster is away"
    await consider(market, order)
    found = await summary_since(world.database, 0)
    assert found.declined == 1 and {name: check.orders for name, check in found.failed.items()} == {
        "wallet": 1,
        "capacity": 1,
    }


async def test_what_is_older_is_left_out_and_bids_are_counted_apart(world: World) -> None:
    await consider(world.market, make_order(1, cpu=8_000))
    await world.later(3700)
    world.chain.add_order(order := make_order(2))
    await consider(world.market, order)
    found = await summary_since(world.database, world.clock.now() - 3600)
    assert (found.bids, found.declined, found.failed) == (1, 0, {})


NODE = make_inventory().nodes[0]
A100 = Card("nvidia", "a100", "80Gi", "sxm")


@pytest.mark.parametrize(
    ("attributes", "nodes", "texts"),
    [
        (
            ATTRIBUTES,
            (NODE,),
            ["GPU nvidia/model/a100 is advertised and no node has it"],
        ),
        (ATTRIBUTES, (replace(NODE, cards=(A100,)),), []),
        (
            (Attribute("capabilities/gpu/vendor/nvidia/model/a100/ram/80Gi/interface/sxm", "true"), *ATTRIBUTES[1:3]),
            (replace(NODE, cards=(A100,)),),
            [],
        ),
        (
            (Attribute("capabilities/gpu/vendor/nvidia/model/a100/ram/40Gi", "true"), *ATTRIBUTES[1:]),
            (replace(NODE, cards=(A100,)),),
            ["GPU nvidia/model/a100/ram/40Gi is advertised and no node has it"],
        ),
        (
            ATTRIBUTES[1:3],
            (replace(NODE, cards=(A100,)),),
            ["GPU nvidia/model/a100 is on the nodes and not advertised: no order for it gets a bid"],
        ),
        (
            (*ATTRIBUTES[:1], Attribute("capabilities/storage/1/class", "beta3")),
            (NODE,),
            [
                "storage class beta2 is on the nodes and not advertised: no order for it gets a bid",
                "storage class beta3 is advertised and has no size (LESSOR_STORAGE_CLASSES)",
            ],
        ),
        (
            ATTRIBUTES[1:3],
            (replace(NODE, storage_classes=()),),
            ["storage class beta2 is advertised and no node has it"],
        ),
        ((*ATTRIBUTES[1:3], Attribute("capabilities/storage/2/class", "ram")), (NODE,), []),
        (
            (*ATTRIBUTES[1:3], Attribute("feat-endpoint-ip", "true")),
            (NODE,),
            ["feat-endpoint-ip is advertised and no address can be leased (LESSOR_IP_RANGES, MetalLB)"],
        ),
    ],
)
def test_what_is_advertised_is_compared_with_what_the_nodes_have(
    attributes: tuple[Attribute, ...], nodes: tuple[Node, ...], texts: list[str]
) -> None:
    inventory = Inventory(nodes=nodes, pool_bytes={"beta2": 1})
    assert list(unmatched(attributes, inventory)) == texts


def test_a_difference_is_logged_once_and_so_is_its_end() -> None:
    without, with_card = Inventory(pool_bytes={}), Inventory(nodes=(replace(NODE, cards=(A100,)),), pool_bytes={})
    with capture_logs() as logs:
        logged = log_unmatched(ATTRIBUTES[3:], without, ())
        logged = log_unmatched(ATTRIBUTES[3:], without, logged)
        log_unmatched(ATTRIBUTES[3:], with_card, logged)
    assert [log["event"] for log in logs] == ["market.attributes_unmatched", "market.attributes_matched"]


def test_a_record_of_thousands_of_classes_gives_a_hundred_texts() -> None:
    record = [Attribute(f"capabilities/storage/{number}/class", f"c{number}") for number in range(5000)]
    assert len(unmatched(record, Inventory())) == 100


async def test_the_record_is_compared_at_the_start_and_when_it_changes(world: World) -> None:
    with capture_logs() as logs:
        await full_pass(world.market)
        await full_pass(world.market)
        record = replace(RECORD, attributes=(*ATTRIBUTES, Attribute("capabilities/storage/2/class", "beta9")))
        world.chain.providers[US] = record
        await full_pass(world.market)
    found = [log["problem"] for log in logs if log["event"] == "market.attributes_unmatched"]
    assert found == [
        "GPU nvidia/model/a100 is advertised and no node has it",
        "storage class beta9 is advertised and has no size (LESSOR_STORAGE_CLASSES)",
    ]
    assert world.market.book.unmatched == tuple(found)
