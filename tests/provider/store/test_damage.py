"""A file of SQLite that is damaged or gone, at the start and while the provider runs: it is set aside and kept, an
empty one takes its place, and what the provider remembers is written again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.market.decision import DecisionInputs, Declined
from provider.market.record.decisions import load_inputs, orders_decided
from provider.market.record.log import DecisionLog
from provider.protocols.clock import SystemClock
from provider.runs.log import begin_run, end_run, runs_of
from provider.store import Database, open_database
from provider.store import database as database_module
from provider.store.cursors import load_cursor, save_cursor
from provider.store.guard import StoreGuard, open_guarded
from provider.store.sealing import KeyRing
from tests.provider.market.world import RECORD, RULES, make_order
from tests.provider.runs.test_runs import BEGUN, ended, key
from tests.world.patience import eventually
from tests.world.users import WITHOUT_RIGHTS, needs_root

CLOCK = SystemClock()
ROWS = 400


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _cut_short(path: Path) -> None:
    os.truncate(path, 3000)


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (path.stat().st_size - 8192 - 4096))


def _spoil_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"This is no database\0\0\0")


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "a file").write_text("kept")


def _make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _drop_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE decisions")
        connection.commit()


def _drop_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE alembic_version")
        connection.commit()


DAMAGE = {
    "truncated": (_truncate, "malformed|disk image|btree|page"),
    "cut to less than a page": (_cut_short, "malformed|not a database|page"),
    "overwritten": (_overwrite, "malformed|Tree|btree|page"),
    "wrong header": (_spoil_header, "not a database"),
    "a folder": (_make_folder, "it is a folder"),
    "a pipe": (_make_fifo, "it is not a file"),
    "unreadable": (_make_loop, "it cannot be read: Too many levels of symbolic links"),
    "a table lost": (_drop_table, "tables are missing: decisions"),
    "the version lost": (_drop_version, "a table is missing: alembic_version"),
}
damages = pytest.mark.parametrize(("damage", "said"), DAMAGE.values(), ids=DAMAGE)
UNUSED = "the version lost"
"""Only a start reads it."""


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A database of some pages, closed."""
    database = await open_database(_url(tmp_path / "lessor.db"))
    await _fill(database)
    await database.close()
    return tmp_path / "lessor.db"


def _url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def _listed(guard: StoreGuard, what: str) -> list[str]:
    return cast("list[str]", guard.status()[what])


async def _fill(database: Database) -> None:
    async with database.writing() as connection:
        for number in range(ROWS):
            row = (f"chain-{number}-{'x' * 40}", number, 1.0)
            await connection.exec_driver_sql("INSERT INTO chain_cursors VALUES (?, ?, ?)", row)
    await save_cursor(database, "kept", height=7, now=1.0)


@damages
async def test_at_the_start_it_is_set_aside_and_an_empty_one_serves(
    path: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(path)
    contents = path.read_bytes() if path.is_file() else b""
    with capture_logs() as logs:
        database, guard = await open_guarded(_url(path), CLOCK)
    assert await load_cursor(database, "kept") is None
    await save_cursor(database, "kept", height=1, now=1.0)
    assert await load_cursor(database, "kept") == 1
    (line,) = [line for line in logs if line["event"] == "store.began_anew"]
    (kept,) = _listed(guard, "set_aside")
    assert line["kept_as"] == kept and line["database"] == str(path)
    (problem,) = _listed(guard, "losses")
    assert any(part in problem for part in said.split("|"))
    assert guard.began_anew and os.path.lexists(kept)
    if contents:
        assert Path(kept).read_bytes() == contents
    await database.close()
    again, second = await open_guarded(_url(path), CLOCK)
    assert await load_cursor(again, "kept") == 1, "the next start finds the new one sound"
    assert not second.began_anew and second.status()["set_aside"] == [kept], "and the operator still reads of it"
    await again.close()


async def test_a_sound_file_an_old_one_and_a_first_start_are_no_damage(path: Path, tmp_path: Path) -> None:
    for where, known in ((path, True), (tmp_path / "first.db", False)):
        database, guard = await open_guarded(_url(where), CLOCK, known=known)
        assert not guard.began_anew and guard.status() == {"set_aside": [], "losses": [], "problem": ""}
        await database.close()


async def test_a_file_that_is_gone_before_the_start_is_a_lost_one(path: Path) -> None:
    path.unlink()
    with capture_logs() as logs:
        database, guard = await open_guarded(_url(path), CLOCK, known=True)
    assert guard.status()["losses"] == ["the file is gone"]
    assert [line["event"] for line in logs] == ["store.began_anew"]
    await database.close()


async def test_an_empty_file_is_a_lost_database_where_there_was_one(path: Path, tmp_path: Path) -> None:
    os.truncate(path, 0)
    (tmp_path / "first.db").touch()
    for where, losses in ((path, ["it has no tables"]), (tmp_path / "first.db", [])):
        database, guard = await open_guarded(_url(where), CLOCK, known=where is path)
        assert guard.status()["losses"] == losses
        await database.close()


@needs_root
async def test_a_file_that_this_user_may_not_read_is_set_aside(path: Path) -> None:
    path.chmod(0)
    program = (
        "import asyncio, sys; from provider.protocols.clock import SystemClock;"
        "from provider.store.guard import open_guarded;"
        "database, guard = asyncio.run(open_guarded(sys.argv[1], SystemClock())); print(guard.status()['losses'])"
    )
    argv = [*WITHOUT_RIGHTS, sys.executable, "-c", program, _url(path)]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False)
    assert "it cannot be read and written: Permission denied" in done.stdout, done.stderr
    assert path.stat().st_mode & 0o400


async def test_a_damaged_file_that_cannot_be_set_aside_refuses_the_start_with_the_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _spoil_header(path)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreError, match=r"damaged database .*lessor\.db cannot be set aside: Read-only file system"):
        await open_guarded(_url(path), CLOCK)


async def test_of_many_damaged_files_the_newest_ten_are_kept(path: Path) -> None:
    for _ in range(13):
        _spoil_header(path)
        database, guard = await open_guarded(_url(path), CLOCK)
        await database.close()
    assert len(_listed(guard, "set_aside")) == 10


class Running:
    """A guarded database that is in use. `replaced`: how often the provider was asked to write again."""

    def __init__(self, database: Database, guard: StoreGuard) -> None:
        self.database, self.guard, self.replaced = database, guard, 0

    async def again(self) -> None:
        self.replaced += 1

    async def read_all(self) -> bool:
        """Reads as the provider does, until the database was replaced."""
        try:
            async with self.database.reading() as connection:
                await connection.exec_driver_sql("SELECT count(*), max(saved_at) FROM chain_cursors")
                await connection.exec_driver_sql("SELECT count(*) FROM decisions")
            await save_cursor(self.database, "now", height=1, now=1.0)
        except StoreError:
            pass
        return self.replaced > 0


@asynccontextmanager
async def _running(path: Path) -> AsyncIterator[Running]:
    database, guard = await open_guarded(_url(path), CLOCK)
    running = Running(database, guard)
    task = asyncio.create_task(guard.run(running.again))
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.close()


async def _write_back(database: Database) -> None:
    """The rows are in the file, none in the log beside it, and no connection remembers a page."""
    async with database.reading() as connection:
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    await database.engine.dispose()


@pytest.mark.parametrize("damage", [DAMAGE[name][0] for name in DAMAGE if name != UNUSED])
async def test_while_the_provider_runs_it_is_replaced_and_written_again(
    path: Path, damage: Callable[[Path], None]
) -> None:
    async with _running(path) as running:
        await _write_back(running.database)
        damage(path)
        await eventually(running.read_all)
        assert await load_cursor(running.database, "kept") is None
        await save_cursor(running.database, "kept", height=2, now=2.0)
        (kept,) = _listed(running.guard, "set_aside")
        assert os.path.lexists(kept) and running.guard.status()["problem"] == ""
        assert running.replaced == 1 and running.database.generation == 1
    again = await open_database(_url(path))
    assert await load_cursor(again, "kept") == 2, "the rows are in the file of that name"
    await again.close()


@pytest.mark.parametrize("recreated", [False, True], ids=["gone", "gone and made anew by a new connection"])
async def test_a_file_that_is_deleted_while_the_provider_runs_is_made_anew(path: Path, recreated: bool) -> None:
    async with _running(path) as running:
        path.unlink()
        if recreated:
            await running.database.engine.dispose()
        await eventually(running.read_all)
        await save_cursor(running.database, "kept", height=2, now=2.0)
    again = await open_database(_url(path))
    assert await load_cursor(again, "kept") == 2
    await again.close()


async def test_a_sound_database_that_an_operator_puts_in_its_place_is_used(path: Path, tmp_path: Path) -> None:
    other = await open_database(_url(tmp_path / "backup.db"))
    await save_cursor(other, "kept", height=99, now=1.0)
    await other.close()
    async with _running(path) as running:
        (tmp_path / "backup.db").rename(path)
        await eventually(running.read_all)
        assert await load_cursor(running.database, "kept") == 99
        assert running.guard.status()["set_aside"] == []


async def test_the_numbers_of_decisions_go_on_and_nothing_of_the_lost_database_is_referred_to(path: Path) -> None:
    inputs = DecisionInputs(make_order(7), RECORD, Snapshot(), RULES, {})
    async with _running(path) as running:
        log = DecisionLog(running.database)
        before = [await log.record(inputs, Declined(("no",)), now=1.0) for _ in range(3)][-1]
        await _write_back(running.database)
        _spoil_header(path)
        await eventually(running.read_all)
        after = await log.record(inputs, Declined(("no",)), now=2.0)
        assert after.number == before.number + 1, "an open bid of before must not be taken for another order's"
        assert await load_inputs(running.database, after.number) == inputs
        assert [one.id for one in await orders_decided(running.database, inputs.order.id)] == [after.number]


async def test_a_run_that_began_before_is_a_row_of_its_own_at_its_end(path: Path) -> None:
    ring = KeyRing.of([key()])
    async with _running(path) as running:
        begun = replace(BEGUN, id=await begin_run(running.database, BEGUN))
        await _write_back(running.database)
        _spoil_header(path)
        await eventually(running.read_all)
        other = replace(BEGUN, stack="another", started_at=20.0)
        assert await begin_run(running.database, other) == begun.id
        await end_run(running.database, ring, ended(begun))
        assert [run.outcome.value for run in await runs_of(running.database, BEGUN.stack)] == ["done"]
        assert [run.outcome.value for run in await runs_of(running.database, "another")] == ["running"]


async def test_who_reads_is_awaited_before_the_file_changes_its_name(path: Path) -> None:
    async with _running(path) as running:
        await _write_back(running.database)
        async with running.database.reading() as connection:
            _spoil_header(path)
            running.database.suspicion.set()
            await asyncio.sleep(0.5)
            assert running.replaced == 0
            waiting = asyncio.create_task(save_cursor(running.database, "later", height=5, now=1.0))
            await connection.exec_driver_sql("SELECT 1")
        await waiting
        await eventually(lambda: running.replaced == 1)
        assert await load_cursor(running.database, "later") == 5


async def test_a_reader_that_never_ends_leaves_everything_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_LAST_USERS_S", 0.1)
    async with _running(path) as running:
        await _write_back(running.database)
        async with running.database.reading():
            _spoil_header(path)
            running.database.suspicion.set()
            await eventually(lambda: running.guard.status()["problem"] != "")
            assert "in use all the time" in str(running.guard.status()["problem"])
            assert running.replaced == 0 and running.guard.status()["set_aside"] == []


FULL_DISK = """
import asyncio, json, resource, signal, sys
from pathlib import Path
from provider.errors import StoreError
from provider.protocols.clock import SystemClock
from provider.store.cursors import load_cursor, save_cursor
from provider.store.guard import open_guarded

path, spoil = Path(sys.argv[1]), sys.argv[2] == "damaged"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

async def main():
    database, guard = await open_guarded(f"sqlite+aiosqlite:///{path}", SystemClock())
    times = []
    async def again():
        times.append(1)
    running = asyncio.create_task(guard.run(again))
    async with database.reading() as connection:
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    await database.engine.dispose()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    if spoil:
        with path.open("r+b") as file:
            file.write(b"This is no database")
    refused = 0
    while refused < 20 or (spoil and not guard.status()["problem"]):
        try:
            await save_cursor(database, f"c{refused}" + "x" * 50, height=1, now=1.0)
        except StoreError:
            refused += 1
        await asyncio.sleep(0.02)
    full = {"replaced": len(times), **guard.status()}
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    while True:
        try:
            await save_cursor(database, "kept2", height=2, now=1.0)
            if times or not spoil:
                break
        except StoreError:
            pass
        await asyncio.sleep(0.05)
    print(json.dumps({"full": full, "replaced": len(times), "kept": await load_cursor(database, "kept"),
                      "kept2": await load_cursor(database, "kept2"), **guard.status()}))
    running.cancel()
    await database.close()

asyncio.run(main())
"""


def _on_a_full_disk(path: Path, how: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), how], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


async def test_a_full_disk_is_no_damage_and_the_history_is_there_when_it_has_room_again(path: Path) -> None:
    found = await asyncio.to_thread(_on_a_full_disk, path, "sound")
    assert found["replaced"] == 0 and found["set_aside"] == [] and found["losses"] == []
    assert (found["kept"], found["kept2"]) == (7, 2)


async def test_on_a_full_disk_a_damaged_file_is_replaced_as_soon_as_there_is_room(path: Path) -> None:
    found = await asyncio.to_thread(_on_a_full_disk, path, "damaged")
    full = found["full"]
    assert isinstance(full, dict) and full["problem"] and full["replaced"] == 0 and full["set_aside"] == []
    assert found["replaced"] == 1 and len(found["set_aside"]) == 1  # type: ignore[arg-type]
    assert (found["kept"], found["kept2"], found["problem"]) == (None, 2, "")


async def test_a_store_on_a_server_is_not_watched(store_url: str) -> None:
    database, guard = await open_guarded(store_url, CLOCK)
    if database.engine.dialect.name == "postgresql":
        await guard.run(_never)
        assert guard.status() == {"set_aside": [], "losses": [], "problem": ""}
    await database.close()


async def _never() -> None:
    raise AssertionError
