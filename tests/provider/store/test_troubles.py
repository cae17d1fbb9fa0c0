"""A store that goes away, fills up or breaks: an error for who asks, nothing half written, and back by itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, text

from provider.errors import StoreError
from provider.store import Database, open_database
from provider.store.cursors import load_cursor, save_cursor
from provider.store.directives import StoredDirectives
from tests.world.postgresql_server import PostgresqlServer, a_postgresql

pytestmark = pytest.mark.xdist_group("postgresql")


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server that the test may harm."""
    with a_postgresql() as made:
        yield made


async def _write_and_lose(database: Database, server: PostgresqlServer) -> None:
    async with database.writing() as connection:
        await connection.execute(text("INSERT INTO chain_cursors VALUES ('half', 1, 1.0)"))
        server.stop(signal.SIGQUIT)
        await connection.execute(text("INSERT INTO chain_cursors VALUES ('other half', 1, 1.0)"))


async def test_a_server_that_is_killed_in_a_transaction_loses_all_of_it_and_is_used_again_when_it_is_back(
    server: PostgresqlServer,
) -> None:
    database = await open_database(server.url("migrated"))
    await save_cursor(database, "kept", height=7, now=1.0)
    with pytest.raises(StoreError, match="the database cannot be written"):
        await _write_and_lose(database, server)
    for _ in range(2):
        with pytest.raises(StoreError, match="the database cannot be written"):
            await save_cursor(database, "kept", height=8, now=2.0)
        with pytest.raises(StoreError, match="the database cannot be read"):
            await load_cursor(database, "kept")
    assert await StoredDirectives(database).load() is None
    server.start()
    assert [await load_cursor(database, name) for name in ("kept", "half", "other half")] == [7, None, None]
    await save_cursor(database, "kept", height=9, now=3.0)
    server.stop()
    server.start()
    assert await load_cursor(database, "kept") == 9, "the first statement after a restart finds a new connection"
    await database.close()


async def test_a_full_disk_refuses_writes_changes_nothing_and_takes_them_again(tmp_path: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    await save_cursor(database, "kept", height=1, now=1.0)
    await database.close()
    limit = {"pages": 1}
    full = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")

    def fill(_: object, cursor: object, *_more: object) -> None:
        cursor.execute(f"PRAGMA max_page_count = {limit['pages']}")  # type: ignore[attr-defined]

    event.listen(full.engine.sync_engine, "before_cursor_execute", fill)
    long = "x" * 60
    with pytest.raises(StoreError, match="full"):
        for number in range(5000):
            await save_cursor(full, f"{number}{long}"[:64], height=number, now=1.0)
    assert await load_cursor(full, "kept") == 1
    limit["pages"] = 100_000
    await save_cursor(full, "kept", height=2, now=2.0)
    assert await load_cursor(full, "kept") == 2
    await full.close()


async def test_a_page_that_breaks_while_the_provider_runs_is_an_error_for_who_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    database = await open_database(f"sqlite+aiosqlite:///{path}")
    for number in range(200):
        await save_cursor(database, f"chain-{number}", height=number, now=1.0)
    await database.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreError, match="move it away to start with an empty one, no lease is lost"):
        broken = await open_database(f"sqlite+aiosqlite:///{path}")
        try:
            await load_cursor(broken, "chain-7")
        finally:
            await broken.close()
    path.unlink()
    fresh = await open_database(f"sqlite+aiosqlite:///{path}")
    assert await load_cursor(fresh, "chain-7") is None
    await fresh.close()
