"""Simultaneous writes share a transaction, and no caller waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.market.decision import DecisionInputs, decide
from provider.market.record.decisions import orders_decided
from provider.market.record.log import DecisionLog, OutcomeLog
from provider.store import open_database
from provider.store.shared_commit import SharedCommit
from tests.provider.market.world import RECORD, RULES, make_order


class Written:
    """A store whose write takes one turn of the event loop, or as long as `gate` is closed."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem: Exception | None = None

    async def write(self, items: Sequence[int]) -> Sequence[str]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        return [str(item) for item in items]


async def test_simultaneous_writes_share_a_commit_and_get_their_own_results() -> None:
    store = Written()
    shared = SharedCommit(store.write)
    assert await asyncio.gather(*(shared.add(number) for number in range(20))) == [str(number) for number in range(20)]
    assert store.batches == [list(range(20))]


async def test_items_that_arrive_during_a_write_share_the_next_one() -> None:
    store = Written()
    shared = SharedCommit(store.write)
    store.gate.clear()
    first = asyncio.create_task(shared.add(0))
    while not store.batches:
        await asyncio.sleep(0)
    later = [asyncio.create_task(shared.add(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    store.gate.set()
    assert await asyncio.gather(first, *later) == ["0", "1", "2", "3"]
    assert store.batches == [[0], [1, 2, 3]]


async def test_a_failed_write_raises_for_each_item_and_the_next_write_runs() -> None:
    store = Written()
    shared = SharedCommit(store.write)
    store.problem = StoreError("disk full")
    results = await asyncio.gather(*(shared.add(number) for number in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["disk full"] * 3
    store.problem = None
    assert await shared.add(7) == "7"


async def test_when_the_writing_task_is_cancelled_the_others_get_an_error() -> None:
    store = Written()
    shared = SharedCommit(store.write)
    store.gate.clear()
    tasks = [asyncio.create_task(shared.add(number)) for number in range(3)]
    while not store.batches:
        await asyncio.sleep(0)
    tasks[0].cancel()
    async with asyncio.timeout(5):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert [str(result) for result in results[1:]] == ["the provider stopped while this was being written"] * 2
    store.gate.set()
    assert await shared.add(9) == "9"


async def test_outcomes_of_many_bids_are_one_commit_and_the_last_outcome_of_a_bid_counts(tmp_path: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
    orders = [make_order(dseq) for dseq in range(1, 21)]
    log, outcomes = DecisionLog(database), OutcomeLog(database)
    decision = decide(DecisionInputs(orders[0], RECORD, snapshot=Snapshot(), rules=RULES, audits={}))
    inputs = [DecisionInputs(order, RECORD, Snapshot(), RULES, {}) for order in orders]
    records = await asyncio.gather(*(log.record(each, decision, now=1.0) for each in inputs))
    words = [(record.number, f"sent {record.number}") for record in records] + [(records[0].number, "lease")]
    await asyncio.gather(*(outcomes.record(*each) for each in words))
    told = [(await orders_decided(database, order.id))[0].outcome for order in orders]
    assert told == ["lease"] + [f"sent {record.number}" for record in records[1:]]
    await outcomes.record(records[0].number, "x" * 5000)
    assert len((await orders_decided(database, orders[0].id))[0].outcome) == 600
    await database.close()


async def test_an_outcome_that_cannot_be_written_is_logged(tmp_path: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
    async with database.writing() as connection:
        await connection.exec_driver_sql("DROP TABLE decisions")
    with pytest.raises(StoreError, match="no such table"):
        await OutcomeLog(database).record(1, "lost")
    await database.close()
