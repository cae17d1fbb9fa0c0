"""What operators complained about (field-problems.md, by its numbers), as far as no other test plays it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lease.ids import OrderId, namespace_name
from lease.resources import Attribute, Price
from provider.errors import ChainError, TxRefused
from provider.inventory.capacity import Capacity, Card, Overcommit
from provider.inventory.ledger import Ledger
from provider.inventory.reading import node as read_node
from provider.inventory.snapshot import Inventory, Node, ScheduledPod
from provider.market.bidding import consider
from provider.market.decision import BidDecision, DecisionInputs, Declined, decide
from provider.market.reconcile import full_pass
from provider.market.terms import OwnerRules
from provider.protocols.chain import BidState
from tests.provider.market.world import GI, RECORD, RULES, US, make_inventory, make_order, make_world, order_id, running
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

T4, A100 = Card("nvidia", "t4"), Card("nvidia", "a100")
ANY_GPU = replace(RECORD, attributes=(*RECORD.attributes, Attribute("capabilities/gpu/vendor/nvidia/model/t4", "true")))


def room(cpu: int) -> Capacity:
    return Capacity(cpu, 64 * GI, 64 * GI, 110)


def of_lease(order: OrderId, node: str, number: int, cpu: int = 1000, **gpu: object) -> ScheduledPod:
    space = namespace_name(order.bid_by(US))
    return ScheduledPod(space, f"p{number}", node, Capacity(cpu, 128 * 2**20, 512 * 2**20, 1), **gpu)  # type: ignore[arg-type]


def test_a3_the_card_that_is_free_is_bid_not_the_first_of_the_list() -> None:
    full = ScheduledPod("x", "p", "node2", Capacity(0, 0, 0, 1), "nvidia", "a100", 1)
    inventory = Inventory(nodes=(Node("node1", room(4000), (T4,)), Node("node2", room(4000), (A100,))), pods=(full,))
    keys = ("vendor/nvidia/model/nonexistent", "vendor/nvidia/model/a100", "vendor/nvidia/model/t4")
    order = make_order(gpus=keys)
    unit = order.spec.units[0]
    one = replace(order.spec, units=(replace(unit, resources=replace(unit.resources, gpu_units=1)),))
    found = decide(
        DecisionInputs(replace(order, spec=one), ANY_GPU, snapshot=Ledger(US).free(inventory), rules=RULES, audits={})
    )
    assert isinstance(found, BidDecision)
    assert found.reservation.nodes == {1: ("node1",)}
    assert [item.key for item in found.offer[0].resources.gpu_attributes] == ["vendor/nvidia/model/t4"]
    assert found.reservation.placements[1].model == "t4"  # type: ignore[union-attr]


async def test_a9_tenants_who_never_take_a_bid_are_throttled_and_their_deposits_come_back(tmp_path: Path) -> None:
    async with running(tmp_path, inventory=make_inventory(cpu=400_000)) as world:
        market = replace(world.market, rules=replace(RULES, owners=OwnerRules(bids_an_hour=3)))
        for dseq in range(1, 11):
            for tenant in ("akash1a", "akash1b"):
                order = replace(make_order(dseq), id=OrderId(tenant, dseq, 1, 1))
                world.chain.orders[order.id] = order
                await consider(market, order)
        assert world.chain.sent_kinds() == ["MsgCreateBid"] * 6
        for order in list(world.chain.orders):  # type: ignore[assignment]  # the market of this world knows no limit, and would go on
            if order.bid_by(US) not in world.chain.bid_states:  # type: ignore[attr-defined]
                del world.chain.orders[order]  # type: ignore[arg-type]
        await world.later(world.market.bid_timeout + 6)
        assert {bid.state for bid in world.chain.bid_states.values()} == {BidState.CLOSED}


def test_b4_a_card_that_falls_ill_under_full_use_leaves_nothing_free_and_wraps_nowhere() -> None:
    label = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"

    def healthy(count: int) -> Node:
        found = read_node(
            {
                "metadata": {"name": "n0", "labels": {"akash.network": "true", label: "8"}},
                "status": {
                    "allocatable": {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": str(count)},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        assert found is not None
        return found

    pods = tuple(ScheduledPod("x", f"p{index}", "n0", Capacity(0, 0, 0, 1), "nvidia", "a100", 1) for index in range(8))
    for count in (8, 7, 0):
        free = Ledger(US).free(Inventory(nodes=(healthy(count),), pods=pods))
        assert free.nodes[0].cards == ()
        found = decide(
            DecisionInputs(
                make_order(gpus=("vendor/nvidia/model/a100",)), RECORD, snapshot=free, rules=RULES, audits={}
            )
        )
        assert isinstance(found, Declined)


@pytest.mark.parametrize("event_lost", [False, True])
async def test_c1_the_room_of_a_closed_order_is_back_with_its_block_or_with_the_next_pass(tmp_path, event_lost) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        assert world.free_cpu() == 3000
        world.chain.close_order(order_id(7))
        if event_lost:
            world.chain.pending.clear()
        await world.block()
        assert world.free_cpu() == (3000 if event_lost else 4000)
        await world.later(world.market.interval + 1)
        assert world.free_cpu() == 4000


def test_c2_what_runs_is_counted_once_after_a_restart_and_at_every_step_of_updates() -> None:
    orders = [order_id(dseq) for dseq in range(1, 21)]
    spec = make_order().spec
    pods = tuple(of_lease(order, f"n{index % 4}", index) for index, order in enumerate(orders))
    inventory = replace(make_inventory(cpu=8334, nodes=4), pods=pods)  # 20 of 33.3 cores: 60 %
    ledger = Ledger(US)
    for order in orders:
        ledger.rebuild(order, spec, inventory=inventory, overcommit=Overcommit())

    def free() -> int:
        return sum(one.capacity.cpu_milli for one in ledger.free(inventory).nodes)

    assert free() == 4 * 8334 - 20_000
    for index, order in enumerate(orders):
        # the old pod goes, the new one waits for a node, then runs on another one
        others = tuple(pod for pod in inventory.pods if pod.namespace != namespace_name(order.bid_by(US)))
        for now in (others, (*others, of_lease(order, f"n{(index + 1) % 4}", 100 + index))):
            inventory = replace(inventory, pods=now)
            assert free() == 4 * 8334 - 20_000


def test_c5_a_node_that_shrinks_below_its_use_has_nothing_free_and_the_others_still_bid() -> None:
    pods = tuple(ScheduledPod("x", f"p{index}", "n0", Capacity(2000, GI, 0, 1)) for index in range(3))
    nodes = (Node("n0", Capacity(1000, GI, GI, 2)), Node("n1", room(4000)))
    free = Ledger(US).free(Inventory(nodes=nodes, pods=pods))
    assert (free.nodes[0].capacity.cpu_milli, free.nodes[0].capacity.memory_bytes, free.nodes[0].capacity.pods) == (
        0,
        0,
        0,
    )
    found = decide(DecisionInputs(make_order(cpu=4000), RECORD, snapshot=free, rules=RULES, audits={}))
    assert isinstance(found, BidDecision)
    assert found.reservation.nodes == {1: ("n1",)}


async def test_c5_a_node_with_more_pods_than_room_is_warned_of_once_with_what_it_lacks(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        picture = [world.inventory]
        market = replace(world.market, inventory=lambda: picture[0])
        pods = tuple(ScheduledPod("x", f"p{index}", "n0", Capacity(2000, GI, 0, 1)) for index in range(3))
        shrunk = Inventory(nodes=(Node("n0", Capacity(1000, GI, GI, 2)), Node("n1", room(4000))), pods=pods)
        world.chain.add_order(make_order(cpu=4000))
        with capture_logs() as logs:
            await full_pass(market)
            picture[0] = shrunk
            await full_pass(market)
            await full_pass(market)
            assert world.chain.sent_kinds() == ["MsgCreateBid"]
            picture[0] = replace(shrunk, pods=())
            await full_pass(market)
        told = [(line["event"], line["node"], line.get("by")) for line in logs if "overcommitted" in line["event"]]
    assert told == [
        ("inventory.overcommitted", "n0", "5000 milli-CPU, 2048 MiB memory, 1 pods"),
        ("inventory.not_overcommitted", "n0", None),
    ]


@pytest.mark.parametrize(("cpu", "count", "fits"), [(4000, 1, False), (3000, 2, True), (3000, 3, False)])
def test_c8_only_what_fits_node_by_node_is_bid_on(cpu: int, count: int, fits: bool) -> None:
    free = Ledger(US).free(make_inventory(cpu=3000, nodes=2))
    found = decide(DecisionInputs(make_order(cpu=cpu, count=count), RECORD, snapshot=free, rules=RULES, audits={}))
    assert isinstance(found, BidDecision) == fits


async def test_a9_a_deposit_locked_in_a_lost_bid_is_listed_until_it_is_back(tmp_path: Path) -> None:
    """Only of bids that are open on the chain for orders that are not: leases and living bids hold theirs as well."""
    async with running(tmp_path) as world:
        book, held = world.market.book, (Price("uakt", Decimal(500_000)),)
        for dseq in (6, 7, 8):
            world.chain.add_order(make_order(dseq, cpu=10))
        await world.block()
        for bid, found in world.chain.bid_states.items():
            world.chain.bid_states[bid] = replace(found, deposit=held)
        await full_pass(world.market)
        assert (book.deposits, book.lost()) == ({order_id(dseq): held for dseq in (6, 7, 8)}, set())
        world.chain.before = refuse_broadcasts
        world.chain.create_lease(order_id(6).bid_by(US))
        world.chain.create_lease(order_id(7).bid_by("akash1rival"))
        await world.block()
        assert (set(book.deposits), book.lost()) == ({order_id(7), order_id(8)}, {order_id(7)})
        await full_pass(world.market)
        assert book.lost() == {order_id(7)}
        world.chain.before = lambda call: None
        await full_pass(world.market)
        assert (set(book.deposits), book.lost()) == ({order_id(8)}, set())


@pytest.mark.parametrize("gone", [BidState.LOST, BidState.CLOSED])
async def test_a9_a_deposit_that_the_chain_gave_back_by_itself_is_listed_no_more(
    tmp_path: Path, gone: BidState
) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        await full_pass(world.market)
        assert set(world.market.book.deposits) == {order_id(7)}
        ours = order_id(7).bid_by(US)
        world.chain.create_lease(order_id(7).bid_by("akash1rival"))
        world.chain.bid_states[ours] = replace(world.chain.bid_states[ours], state=gone)
        await world.block()
        assert not world.market.book.deposits
        assert world.chain.sent_kinds() == ["MsgCreateBid"]


def refuse_broadcasts(call: str) -> None:
    if call == "broadcast":
        raise ChainError("fake", "connection refused")


@pytest.mark.parametrize(
    ("code", "pauses"),
    [(5, [60, 120, 240]), (11, [60, 120, 240]), (21, []), (24, [])],
)
async def test_f5_f6_a_refused_bid_gives_its_room_back_and_is_tried_again_later_and_later_or_never(
    tmp_path: Path, code: int, pauses: list[int]
) -> None:
    world = make_world(MemoryDatabase(tmp_path / "market.db"))

    def refuse(call: str) -> None:
        if call == "broadcast":
            raise TxRefused("fake", codespace="sdk" if code == 11 else "market", code=code, log="no")

    world.chain.before = refuse
    order = make_order()
    world.chain.orders[order.id] = order
    for pause in [*pauses, 100_000]:
        tries = world.chain.calls.count("broadcast")
        await consider(world.market, order)
        assert world.chain.calls.count("broadcast") == tries + 1 or not pauses
        assert world.free_cpu() == 4000
        await consider(world.market, order)
        assert world.chain.calls.count("broadcast") <= tries + 1
        await world.clock.advance(pause)
    assert world.chain.calls.count("broadcast") == len(pauses) + 1
    (*_, first) = await world.decisions()
    assert first.outcome.startswith("refused ")
