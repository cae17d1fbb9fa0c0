"""A decision made again from its record is the same, whatever happened meanwhile; a bid needs a record."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import func, select

import provider
from lease.groups import SignedBy
from lease.resources import Attribute
from provider.chain import events
from provider.errors import StoreError
from provider.inventory.capacity import Card
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, ScheduledPod
from provider.market.bidding import bid_message, consider
from provider.market.decision import BidDecision, DecisionInputs, Declined
from provider.market.explanation import Explanation, explain, explanation_json
from provider.market.inputs import declined_unchanged
from provider.market.pricing.quote import PriceRequest, Quote
from provider.market.record.capacity_log import change_entry, full_entry, snapshot_from
from provider.market.record.decisions import load_inputs, recent_decisions, short_reasons
from provider.market.record.log import DecisionLog, Recorded
from provider.market.terms import OwnerRules, TenantHoldings
from provider.protocols.chain import Event
from provider.store.tables import capacity_log, decision_inputs
from provider.units import Coin
from tests.provider.market.world import (
    RECORD,
    RULES,
    US,
    make_inventory,
    make_order,
    make_world,
    order_id,
    running,
)
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

T4, A100 = Card("nvidia", "t4"), Card("nvidia", "a100", "80Gi", "sxm")


def changed(chance: random.Random, inventory: Inventory) -> Inventory:
    """A pod comes or goes, a node grows, comes, goes, or loses its cards."""
    nodes, pods = list(inventory.nodes), list(inventory.pods)
    match chance.randrange(6):
        case 0:
            room = chance.choice(nodes).capacity
            pods.append(ScheduledPod("x", f"p{len(pods)}", chance.choice(nodes).name, replace(room, cpu_milli=500)))
        case 1 if pods:
            pods.pop(chance.randrange(len(pods)))
        case 2 if len(nodes) > 1:
            nodes.pop(chance.randrange(len(nodes)))
        case 3:
            made = f"m{chance.randrange(5)}"
            nodes = sorted(
                [*(one for one in nodes if one.name != made), replace(nodes[0], name=made)], key=lambda n: n.name
            )
        case _:
            at = chance.randrange(len(nodes))
            nodes[at] = replace(nodes[at], cards=chance.choice([(), (T4, T4), (T4, A100)]))
    return replace(inventory, nodes=tuple(nodes), pods=tuple(pods), address_count=chance.randrange(3))


def any_order(chance: random.Random, dseq: int):
    keys = ("vendor/nvidia/model/a100", "vendor/nvidia/model/*")
    return replace(
        make_order(
            dseq,
            cpu=chance.choice([500, 1000, 2500, 5, 9000]),
            count=chance.randrange(1, 4),
            price=chance.choice(["1", "50", "100"]),
            gpus=(chance.choice(keys),) if chance.random() < 0.3 else (),
            ips=chance.randrange(3) if chance.random() < 0.2 else 0,
            attributes=(Attribute("region", chance.choice(["us-west", "eu"])),) if chance.random() < 0.3 else None,
            signed_by=SignedBy(any_of=("akash1auditor",)) if chance.random() < 0.2 else None,
        ),
        reclamation_ns=10**9 if chance.random() < 0.1 else None,
    )


@pytest.mark.parametrize("seed", range(2))
async def test_a_decision_explained_later_is_the_decision_that_was_made(tmp_path: Path, seed: int) -> None:
    """Random orders, nodes, pods, reservations and releases over several hours, with and without a price strategy."""
    chance = random.Random(seed)
    database = MemoryDatabase(tmp_path / "market.db")
    inventory = [make_inventory(nodes=3)]

    async def pricing(asked: PriceRequest) -> Quote:
        price = replace(asked.most, amount=Decimal(chance.choice([1, 40, 400])))
        return Quote("shellScript", price, given="given", said=f"{price.amount}")

    try:
        world = make_world(database)
        market = replace(
            world.market,
            inventory=lambda: inventory[0],
            pricing=pricing if seed % 2 else None,
            rules=replace(
                RULES, owners=OwnerRules(open_bids=9), prices=Quote("shellScript") if seed % 2 else RULES.prices
            ),
        )
        world.chain.audits[US, "akash1auditor"] = (Attribute("region", "us-west"),)
        for dseq in range(1, 41):
            order = any_order(chance, dseq)
            world.chain.orders[order.id] = order
            await consider(market, order)
            if chance.random() < 0.3:
                inventory[0] = changed(chance, inventory[0])
            if chance.random() < 0.3 and market.ledger.orders():
                market.ledger.release(chance.choice(market.ledger.orders()))
            await world.clock.advance(chance.choice([1, 60, 900]))
        found = await recent_decisions(database, limit=1000)
        assert {one.verdict for one in found} == {"bid", "declined"}
        for stored in found:
            again = explain(await load_inputs(database, stored.id))
            assert short_reasons(again.decision) == stored.reasons
            assert (again.bid.price if again.bid else None) == stored.price
            assert [reason for check in again.checks for reason in check.reasons] == list(
                () if isinstance(again.decision, BidDecision) else again.decision.reasons
            )
    finally:
        await database.close()


def test_what_was_free_comes_back_exactly_from_a_full_picture_and_its_changes() -> None:
    chance = random.Random(7)
    inventory, world = make_inventory(nodes=4), None
    snapshots = []
    for _ in range(60):
        inventory = changed(chance, inventory)
        world = Ledger(US).free(inventory)
        snapshots.append(world)
    entries, positions = [full_entry(snapshots[0])], [0]
    for before, after in itertools.pairwise(snapshots):
        body = change_entry(before, after)
        assert body is not None
        if body:
            entries.append(body)
        positions.append(len(entries) - 1)
    for at, snapshot in zip(positions, snapshots, strict=True):
        assert snapshot_from(entries[: at + 1]) == snapshot


@pytest.mark.parametrize("body", [b"", b"\x00", b"x\x9c\x03\x00", full_entry(Ledger(US).free(make_inventory()))[:-5]])
def test_a_damaged_picture_is_told(body: bytes) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        snapshot_from([body])


async def test_a_bid_message_is_made_of_a_record_and_of_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order())
        await world.block()
        (decision,) = await world.decisions()
        found = explain(await load_inputs(world.database, decision.id)).decision
        assert isinstance(found, BidDecision)
        with pytest.raises(TypeError, match="log of decisions"):
            Recorded(decision.id, order_id(7), found, seal=object())
        for nothing in (found, None, decision):
            with pytest.raises(TypeError, match="needs the record"):
                bid_message(nothing, provider=US, deposit=Coin("uakt", Decimal(1)))  # type: ignore[arg-type]
        recorded = await world.market.log.record(
            DecisionInputs(make_order(8), RECORD, world.ledger.free(world.inventory), RULES, {}),
            Declined(("no",)),
            now=1.0,
        )
        with pytest.raises(TypeError, match="needs the record"):
            bid_message(recorded, provider=US, deposit=Coin("uakt", Decimal(1)))


def test_there_is_one_place_that_makes_bid_messages_and_one_that_makes_records() -> None:
    root = Path(provider.__file__).parent
    sources = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}

    def where(pattern: str) -> set[str]:
        return {name for name, text in sources.items() if re.search(pattern, text)}

    assert where(r"create_bid\(|MsgCreateBid\(") == {"chain/messages.py", "market/bidding.py"}
    assert where(r"bid_message\(") == {"market/bidding.py"}
    assert where(r"(?<!class )\bRecorded\(") == {"market/record/log.py"}


async def test_decisions_of_one_moment_share_a_commit_and_a_store_that_fails_fails_all_of_them(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "market.db")
    try:
        log, free = DecisionLog(database), make_world(database).ledger.free(make_inventory())
        inputs = [DecisionInputs(make_order(dseq), RECORD, free, RULES, {}) for dseq in range(1, 21)]
        found = await asyncio.gather(*(log.record(one, Declined(("no",)), now=1.0) for one in inputs))
        assert sorted(one.number for one in found) == list(range(1, 21))
        await database.close()
        bad = _FailingDatabase()
        failing = DecisionLog(bad)  # type: ignore[arg-type]
        results = await asyncio.gather(
            *(failing.record(one, Declined(("no",)), now=1.0) for one in inputs), return_exceptions=True
        )
        assert {type(one) for one in results} == {StoreError}
        assert bad.tries <= 2
    finally:
        await database.close()


class _FailingDatabase:
    tries = 0

    def writing(self):
        self.tries += 1
        raise StoreError("disk full")


async def test_old_decisions_go_with_what_only_they_were_made_from(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "market.db")
    try:
        log, ledger = DecisionLog(database), make_world(database).ledger
        for dseq in range(1, 31):
            free = ledger.free(make_inventory(cpu=1000 * dseq, nodes=2))
            inputs = DecisionInputs(make_order(dseq, price=str(dseq)), RECORD, free, RULES, {})
            await log.record(inputs, Declined(("no",)), now=dseq * 600.0)
        assert await log.prune(now=20_000.0, keep=20, age_s=1e9) == 10
        assert await log.prune(now=20_000.0, keep=20, age_s=6000.0) == 13
        kept = await recent_decisions(database, limit=100)
        assert [one.order.dseq for one in kept] == list(range(30, 23, -1))
        for one in kept:
            inputs = await load_inputs(database, one.id)
            assert inputs.snapshot.nodes[0].capacity.cpu_milli == 1000 * one.order.dseq
        again = await log.record(replace(inputs, tenant=TenantHoldings(1, 2, 3)), Declined(("no",)), now=1.0)
        assert (await load_inputs(database, again.number)).tenant == TenantHoldings(1, 2, 3)
        assert await log.prune(now=1e12, keep=100, age_s=1.0) == 8
        assert await recent_decisions(database, limit=100) == []
        async with database.reading() as connection:
            for table in (capacity_log, decision_inputs):
                assert (await connection.execute(select(func.count()).select_from(table))).scalar_one() == 0
        last = await log.record(inputs, Declined(("no",)), now=1.0)
        assert await load_inputs(database, last.number) == inputs
    finally:
        await database.close()


async def test_a_script_is_not_asked_again_about_an_order_until_something_changes(tmp_path: Path) -> None:
    """Field problem A1 and the fees of a forgotten process: one run an order, not one a minute."""
    questions: list[str] = []
    mark = [1]

    async def pricing(asked: PriceRequest) -> Quote:
        questions.append(str(asked.order.dseq))
        return Quote("shellScript", problem="the price script ended with status 1")

    async with running(tmp_path) as world:
        market = replace(world.market, pricing=pricing, pricing_mark=lambda: mark[0])
        orders = [make_order(7), make_order(8, price="99")]
        for _ in range(5):
            for order in orders:
                await consider(market, order)
        assert questions == ["7", "8"]
        assert all(declined_unchanged(market, order.id) for order in orders)  # not even decided again
        mark[0] = 2  # the script's file was replaced
        await consider(market, orders[0])
        assert questions == ["7", "8", "7"]
        assert len(await world.decisions(7)) == 1


async def test_no_bid_leaves_for_any_order_a_pricing_rule_refuses(tmp_path: Path) -> None:
    """500 orders in bursts and from before the start: 0 transactions, 500 records (field problem A1)."""

    async def refuse(asked: PriceRequest) -> Quote:
        return Quote("shellScript", problem="filtered")

    database = MemoryDatabase(tmp_path / "market.db")
    try:
        world = make_world(database)
        market = replace(world.market, pricing=refuse, pricing_mark=lambda: 1)
        for burst in range(10):
            await asyncio.gather(*(consider(market, make_order(burst * 50 + each)) for each in range(1, 51)))
        assert world.chain.sent == []
        found = await recent_decisions(database, limit=1000)
        assert len(found) == 500
        assert {one.reasons for one in found} == {("filtered",)}
        assert world.free_cpu() == 4000
    finally:
        await database.close()


async def test_an_event_of_an_end_ends_what_is_remembered_of_an_order(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.chain.add_order(make_order(cpu=9000))
        await world.block()
        assert set(world.market.book.declined) == {order_id(7)}
        world.chain.close_order(order_id(7))
        await world.block(Event(events.ORDER_CLOSED, {"id": "nonsense"}))
        assert world.market.book.declined == {}


@pytest.mark.parametrize(
    ("given", "said", "shown"),
    [
        ("", "", None),
        ("[]", "", {"input": "[]", "output": ""}),
        ("", "12", {"input": "", "output": "12"}),
        ("[]", "12", {"input": "[]", "output": "12"}),
    ],
)
def test_the_json_of_an_explanation_has_the_texts_of_a_price_script_where_there_was_one(
    given: str, said: str, shown: object
) -> None:
    free = Ledger(US).free(make_inventory())
    inputs = DecisionInputs(make_order(), RECORD, snapshot=free, rules=RULES, audits={}, tenant=TenantHoldings())
    found = replace(explain(inputs), given=given, said=said)
    assert isinstance(found, Explanation) and explanation_json(inputs, found)["script"] == shown
