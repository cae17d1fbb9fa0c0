"""Retention: each kind goes at its age and no earlier, and other writers wait for a few rows only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Table, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from lease.ids import LeaseId, namespace_name
from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.lifecycle.state import LeaseStatus, Phase
from provider.market.decision import DecisionInputs, Declined
from provider.market.record.decisions import load_inputs
from provider.market.record.log import DecisionLog
from provider.market.record.pruning import prune_decisions
from provider.records.accepted import AcceptedManifest
from provider.runs.log import begin_run
from provider.store import Database, open_database
from provider.store.claims import Claim, ClaimKind, claims_on, note_claims, open_claims
from provider.store.cursors import save_cursor
from provider.store.fees import fees_between
from provider.store.leases import known_leases, save_status, states_of
from provider.store.manifests import manifests_of, save_manifest
from provider.store.money import Earned, LeaseMoney, earned_between, save_money
from provider.store.retention import KeepFor, forget_old, keep_house
from provider.store.tables import decisions, fees, runs
from tests.provider.market.world import RECORD, RULES, make_order
from tests.provider.runs.test_runs import BEGUN
from tests.world.database import MemoryDatabase
from tests.world.virtual import VirtualClock

DAY_S = 86400.0
NOW = 1_795_000_000.0
KEEP = KeepFor(history=30 * DAY_S, claims=365 * DAY_S, earnings=3650 * DAY_S)
ENDED = LeaseId("akash1tenant", 7, 1, 1, "akash1provider")
LIVING = replace(ENDED, dseq=8)


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    opened = await open_database(store_url)
    yield opened
    await opened.close()


async def _fill(database: Database) -> None:
    """Every kind of row, of a lease that ended now and of one that lives."""
    for lease, phase in ((ENDED, Phase.CLOSED), (LIVING, Phase.RUNNING)):
        await save_status(database, LeaseStatus(lease, phase, "", NOW))
        await save_manifest(database, AcceptedManifest(lease, NOW, "a" * 64, "b" * 64, 1, 1))
        await begin_run(database, replace(BEGUN, stack=namespace_name(lease), started_at=NOW))
        claim = Claim(ClaimKind.HOSTNAME, f"h{lease.dseq}.example.com", "", lease)
        await note_claims(database, [(claim, NOW)], [])
    rows = await open_claims(database)
    await note_claims(database, [], [(number, NOW) for key, number in rows.items() if key[1] == "h7.example.com"])
    today = datetime.fromtimestamp(NOW, UTC).date()
    money = LeaseMoney(ENDED, "uakt", Decimal(5), NOW, NOW, ended=True)
    await save_money(database, [money], [Earned(today, ENDED, "uakt", Decimal(5))])
    async with database.writing() as connection:
        await connection.execute(insert(fees).values(day=today.isoformat(), denom="uakt", amount="3"))


async def _kept(database: Database) -> dict[str, Any]:
    first, last = date(2020, 1, 1), date(2100, 1, 1)
    stack = namespace_name(ENDED)
    return {
        "leases": [one.lease.dseq for one in await known_leases(database, closed=True)],
        "history": [len(await each(database, stack)) for each in (states_of, manifests_of)],
        "living": [len(await each(database, namespace_name(LIVING))) for each in (states_of, manifests_of)],
        "runs": await _count(database, runs),
        "claims": [len(await claims_on(database, f"h{dseq}.example.com")) for dseq in (7, 8)],
        "money": [len(await earned_between(database, first, last)), len(await fees_between(database, first, last))],
    }


async def _count(database: Database, table: Table) -> int:
    async with database.reading() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def test_each_kind_is_kept_for_its_time_and_what_taxes_need_is_kept_longest(database: Database) -> None:
    await _fill(database)
    everything = {
        "leases": [7, 8], "history": [1, 1], "living": [1, 1], "runs": 2, "claims": [1, 1], "money": [1, 1]
    }  # fmt: skip
    assert await _kept(database) == everything
    assert await forget_old(database, KEEP, now=NOW + 30 * DAY_S - 1) == 0
    assert await forget_old(database, KEEP, now=NOW + 31 * DAY_S) == 4
    no_history = everything | {"leases": [8], "history": [0, 0], "runs": 1}
    assert await _kept(database) == no_history
    assert await forget_old(database, KEEP, now=NOW + 366 * DAY_S) == 1
    assert await _kept(database) == no_history | {"claims": [0, 1]}, "a claim that is held is never old"
    assert await forget_old(database, KEEP, now=NOW + 3600 * DAY_S) == 0
    assert await forget_old(database, KEEP, now=NOW + 3651 * DAY_S) == 2
    assert await _kept(database) == no_history | {"claims": [0, 1], "money": [0, 0]}
    assert await forget_old(database, KEEP, now=0.0) == 0, "a clock that was set back deletes nothing"


class _Watched(Database):
    """Counts the transactions, and the rows that each of them deletes."""

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        counted = _Counted()
        async with super().writing() as connection:
            counted.connection = connection
            yield counted  # type: ignore[misc]
        DELETED.append(counted.rows)


DELETED: list[int] = []


class _Counted:
    connection: AsyncConnection
    rows = 0

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        result = await self.connection.execute(statement, parameters)
        self.rows += result.rowcount if statement.is_delete else 0
        return result


async def test_thousands_of_old_rows_go_a_few_at_a_time_and_a_writer_gets_its_turn_in_between(
    database: Database,
) -> None:
    rows = [{**_RUN, "stack": "nobodys", "started_at": float(number)} for number in range(5000)]
    async with database.writing() as connection:
        await connection.execute(insert(runs), rows)
    DELETED.clear()
    watched = _Watched(database.engine, database.turn)
    work = asyncio.create_task(forget_old(watched, KEEP, now=NOW))
    left = []
    while not work.done():
        await save_cursor(database, "local", height=len(left), now=1.0)
        left.append(await _count(database, runs))
    assert await work == 5000
    assert max(DELETED) <= 250 and len(DELETED) >= 20
    assert len({each for each in left if 0 < each < 5000}) > 3, "another writer wrote between the transactions"


_RUN = {
    "operation": "up", "reason": "close", "spec_hash": "", "manifest_hash": "", "outcome": "done", "summary": "{}",
    "cause": "", "error": "", "key_id": "", "result": b"x" * 1000,
}  # fmt: skip


async def test_thousands_of_old_decisions_go_a_few_at_a_time_while_new_ones_are_made(database: Database) -> None:
    log = DecisionLog(_Watched(database.engine, database.turn))
    first = await log.record(_inputs(1), Declined(("no",)), now=1.0)
    async with database.writing() as connection:
        row = dict((await connection.execute(select(decisions))).mappings().one())
        old = [{**row, "id": first.number + number, "dseq": str(number)} for number in range(1, 3000)]
        await connection.execute(insert(decisions), old)
    log = DecisionLog(_Watched(database.engine, database.turn))
    DELETED.clear()
    work, made = asyncio.create_task(log.prune(now=NOW, keep=100_000, age_s=DAY_S)), []
    while not work.done():
        made.append(await log.record(_inputs(len(made) % 3 + 1), Declined(("no",)), now=NOW))
    assert await work == 3000
    assert max(DELETED) <= 250
    assert await _count(database, decisions) == len(made) > 3
    for each in made:
        assert (await load_inputs(database, each.number)).order.id == each.order, "no input went with an old decision"


class _Turn:
    """The turn of who writes decisions; the second time, a decision was written just before."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.meanwhile, self.taken = meanwhile, 0

    async def __aenter__(self) -> None:
        self.taken += 1
        if self.taken == 2:
            await self.meanwhile()

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""


async def test_an_input_that_a_new_decision_uses_again_stays_although_it_was_found_unused(database: Database) -> None:
    log, made = DecisionLog(database), []
    await log.record(_inputs(1), Declined(("no",)), now=1.0)

    async def again() -> None:
        made.append(await log.record(_inputs(1), Declined(("no",)), now=NOW))

    turn = _Turn(again)
    gone = await prune_decisions(database, turn=turn, forget=log._forget, now=NOW, keep=1000, age_s=DAY_S)  # type: ignore[arg-type]
    assert (gone, turn.taken, len(made)) == (1, 2, 1)
    assert await load_inputs(database, made[0].number) == _inputs(1)


def _inputs(dseq: int) -> DecisionInputs:
    return DecisionInputs(make_order(dseq, price=str(dseq)), RECORD, Snapshot(), RULES, {})


class _Failing:
    """A store that fails the first times."""

    def __init__(self, database: Database, times: int) -> None:
        self.database, self.times, self.reads = database, times, 0

    def reading(self) -> Any:
        self.reads += 1
        if self.reads <= self.times:
            raise StoreError("the database cannot be read: disk I/O error")
        return self.database.reading()

    def writing(self) -> Any:
        return self.database.writing()


@pytest.mark.virtual_time
async def test_old_rows_are_looked_for_every_hour_and_a_store_that_fails_is_asked_again() -> None:
    memory, clock = MemoryDatabase(), VirtualClock()
    await save_status(memory, LeaseStatus(ENDED, Phase.CLOSED, "", clock.now()))
    failing = _Failing(memory, times=3)
    keeping = asyncio.create_task(keep_house(failing, KEEP, clock))  # type: ignore[arg-type]
    await asyncio.sleep(29 * DAY_S)
    assert len(await known_leases(memory, closed=True)) == 1
    await asyncio.sleep(timedelta(days=1, hours=2).total_seconds())
    assert await known_leases(memory, closed=True) == []
    assert failing.reads > 700, "every hour"
    keeping.cancel()
    await memory.close()
