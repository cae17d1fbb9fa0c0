"""The store: migrated from nothing, safe at a power cut, with errors that name the remedy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text, update

from lease.ids import OrderId
from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.market.decision import DecisionInputs, decide
from provider.market.record.decisions import load_inputs, orders_decided
from provider.market.record.log import DecisionLog, OutcomeLog
from provider.store import Database, open_database
from provider.store import database as database_module
from provider.store.cursors import load_cursor, save_cursor
from provider.store.tables import decision_inputs, metadata
from tests.provider.market.world import RECORD, RULES, make_order


def url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder}/deep/er/x.db"


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    opened = await open_database(store_url)
    yield opened
    await opened.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(url(tmp_path))
    yield opened
    await opened.close()


async def test_the_migrations_make_the_tables_that_the_code_reads(empty_store_url: str) -> None:
    database = await open_database(empty_store_url)
    async with database.reading() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), metadata)
        )
        names = await connection.run_sync(lambda sync: set(inspect(sync).get_table_names()))
    assert differences == []
    assert names == {*metadata.tables, "alembic_version"}
    await database.close()


async def test_a_second_start_changes_nothing(store_url: str) -> None:
    for expected in (None, 5):
        database = await open_database(store_url)
        assert await load_cursor(database, "local") == expected
        await save_cursor(database, "local", height=5, now=1.0)
        await database.close()


async def test_sqlite_writes_ahead_and_syncs_fully(sqlite: Database) -> None:
    async with sqlite.reading() as connection:
        found = {
            name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("journal_mode", "synchronous")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2}


async def test_each_chain_has_its_own_height(database: Database) -> None:
    await save_cursor(database, "a", height=2**40, now=1.0)
    await save_cursor(database, "b", height=2, now=1.0)
    await save_cursor(database, "b", height=3, now=2.0)
    assert [await load_cursor(database, name) for name in ("a", "b", "c")] == [2**40, 3, None]


async def test_decisions_are_read_with_their_inputs(database: Database) -> None:
    order = make_order(2**64 - 1)
    inputs = DecisionInputs(order, RECORD, Snapshot(), RULES, {})
    decision = decide(DecisionInputs(order, RECORD, snapshot=Snapshot(), rules=RULES, audits={}))
    log = DecisionLog(database)
    numbers = [(await log.record(inputs, decision, now=float(index))).number for index in range(3)]
    await OutcomeLog(database).record(numbers[-1], "lost")
    newest, *_ = found = await orders_decided(database, order.id)
    assert len(found) == 3
    assert (newest.id, newest.outcome, newest.reasons) == (numbers[-1], "lost", decision.reasons)  # type: ignore[union-attr]
    assert await load_inputs(database, numbers[0]) == inputs
    async with database.reading() as connection:
        kept = (await connection.execute(text("SELECT COUNT(*) FROM decision_inputs"))).scalar_one()
    assert kept == 4  # once each, though three decisions look at them
    assert await orders_decided(database, OrderId("akash1tenant", 1, 1, 1)) == []


async def test_a_missing_decision_is_an_error(database: Database) -> None:
    with pytest.raises(StoreError, match="no decision 99"):
        await load_inputs(database, 99)


async def test_a_damaged_input_is_an_error(database: Database) -> None:
    order = make_order()
    inputs = DecisionInputs(order, RECORD, Snapshot(), RULES, {})
    decision = decide(DecisionInputs(order, RECORD, snapshot=Snapshot(), rules=RULES, audits={}))
    number = (await DecisionLog(database).record(inputs, decision, now=1.0)).number
    async with database.writing() as connection:
        await connection.execute(update(decision_inputs).values(body=b"\0"))
    with pytest.raises(StoreError, match="cannot be read"):
        await load_inputs(database, number)


async def test_many_writers_take_turns(database: Database) -> None:
    await asyncio.gather(*(save_cursor(database, f"c{index}", height=index, now=0.0) for index in range(50)))
    assert await load_cursor(database, "c49") == 49


@pytest.mark.parametrize(
    "bad", ["", "nonsense", "sqlite+aiosqlite:////proc/nowhere/x.db", "postgresql+nodriver://u:hunter2@h/d"]
)
async def test_the_error_for_an_unusable_database_contains_no_password(bad: str) -> None:
    with pytest.raises(StoreError) as error:
        await open_database(bad)
    assert "hunter2" not in str(error.value)


async def test_the_error_for_a_file_that_is_not_a_database_names_it_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is not a database, it is a text that is long enough" * 50)
    with pytest.raises(StoreError, match=r"x\.db.*move it away.*no lease is lost"):
        await open_database(f"sqlite+aiosqlite:///{path}")


async def test_a_database_of_a_newer_version_is_refused_with_the_remedy_and_left_as_it_is(store_url: str) -> None:
    database = await open_database(store_url)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await database.close()
    with pytest.raises(StoreError, match=r"schema 9999 is of a newer lessor.*take the newer one.*no lease is lost"):
        await open_database(store_url)


def test_the_number_of_the_last_migration_is_read_from_its_file() -> None:
    script = ScriptDirectory(str(Path(database_module.__file__).parent / "migrations"))
    assert database_module.newest_schema() == script.get_current_head()
