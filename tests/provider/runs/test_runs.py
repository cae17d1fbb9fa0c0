"""Runs, versions and leases in the store, and the key that what tenants gave us is sealed with."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from lease.ids import LeaseId, namespace_name
from lease.spec import EnvironmentVariable, LeaseSpec, ServiceSpec
from provider.errors import StoreError
from provider.lifecycle.state import LeaseStatus, Phase
from provider.runs.log import (
    RunOutcome,
    RunReason,
    StoredRun,
    begin_run,
    end_run,
    interrupt_runs,
    keep_newest_runs,
    last_run,
    runs_of,
)
from provider.runs.versions import forget_versions, manifest_of, save_version, versions_of
from provider.store import Database, open_database, read_database
from provider.store.leases import find_lease, known_leases, save_status
from provider.store.retention import forget_ended
from provider.store.ring import open_ring
from provider.store.sealing import KeyRing, load_ring
from provider.store.tables import runs as runs_table
from provider.store.tables import versions as versions_table
from stacks.common.results import Operation, ResourceChange, StackResult

LEASE = LeaseId("akash1tenant", 2**64 - 1, 1, 1, "akash1provider")
STACK = namespace_name(LEASE)
BEGUN = StoredRun(STACK, Operation.UP, 10.0, RunReason.MANIFEST_UPDATE, "spec", "manifest")


def url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder}/x.db"


def key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing.of([key()])


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    opened = await open_database(store_url)
    yield opened
    await opened.close()


def a_spec(secret: str = "hunter2hunter2", *, image: str = "nginx:1") -> LeaseSpec:
    web = ServiceSpec(
        name="web", image=image, environment=(EnvironmentVariable(name="TOKEN", value=secret),), count=1,  # type: ignore[arg-type]
        resource_version="1", resource_id=1, cpu_request_milli=1, cpu_limit_milli=1, memory_request_bytes=1,
        memory_limit_bytes=1,
    )  # fmt: skip
    return LeaseSpec(lease=LEASE, group="west", first_resource_version="1", services=(web,))


def ended(run: StoredRun, *, ok: bool = True, error: str = "") -> StoredRun:
    change = ResourceChange("update", "kubernetes:apps/v1:Deployment", "web", diff=("spec.replicas",))
    result = StackResult(
        run.operation, run.stack, ok=ok, seconds=1.5, changes=(change,), summary={"update": 1}, error=error,
        outputs={"x": "an output"},
    )  # fmt: skip
    outcome = RunOutcome.DONE if ok else RunOutcome.FAILED
    return replace(run, ended_at=11.5, outcome=outcome, error=error, summary=result.summary, result=result)


def a_status(lease: LeaseId, phase: Phase = Phase.RUNNING, *, since: float = 5.0) -> LeaseStatus:
    return LeaseStatus(lease, phase, "because", since, 2)


async def test_a_run_is_seen_while_it_runs_and_complete_afterwards(database: Database, ring: KeyRing) -> None:
    number = await begin_run(database, BEGUN)
    (running,) = await runs_of(database, STACK, ring=ring)
    assert running == replace(BEGUN, id=number, summary={})
    await end_run(database, ring, ended(replace(BEGUN, id=number)))
    (done,) = await runs_of(database, STACK, ring=ring)
    assert (done.id, done.outcome, done.ended_at, done.reason) == (number, RunOutcome.DONE, 11.5, BEGUN.reason)
    assert done.result is not None
    assert done.result.changes[0].diff == ("spec.replicas",)
    assert done.result.outputs == {}


async def test_a_run_whose_beginning_could_not_be_written_is_written_at_its_end(
    database: Database, ring: KeyRing
) -> None:
    await end_run(database, ring, ended(BEGUN, ok=False, error="quota"))
    (run,) = await runs_of(database, STACK)
    assert (run.outcome, run.error, run.summary, run.result) == (RunOutcome.FAILED, "quota", {"update": 1}, None)


async def test_at_the_start_what_still_runs_was_interrupted(database: Database, ring: KeyRing) -> None:
    await begin_run(database, BEGUN)
    await end_run(database, ring, ended(replace(BEGUN, id=await begin_run(database, BEGUN))))
    assert await interrupt_runs(database) == 1
    assert [run.outcome for run in await runs_of(database, STACK)] == [RunOutcome.DONE, RunOutcome.INTERRUPTED]
    assert await interrupt_runs(database) == 0


async def test_only_the_newest_runs_of_a_lease_are_kept(database: Database) -> None:
    for stack in (STACK, "other"):
        for index in range(7):
            await begin_run(database, replace(BEGUN, stack=stack, spec_hash=str(index)))
    await keep_newest_runs(database, STACK, keep=3)
    assert [run.spec_hash for run in await runs_of(database, STACK)] == ["6", "5", "4"]
    assert len(await runs_of(database, "other")) == 7
    await keep_newest_runs(database, STACK, keep=3)
    assert len(await runs_of(database, STACK)) == 3
    assert len(await runs_of(database, STACK, limit=2)) == 2


async def test_the_last_run_is_the_last_that_applied(database: Database) -> None:
    assert await last_run(database, STACK) is None
    await begin_run(database, replace(BEGUN, spec_hash="a"))
    await begin_run(database, replace(BEGUN, operation=Operation.REFRESH))
    found = await last_run(database, STACK)
    assert found is not None and found.spec_hash == "a"


async def test_nothing_sealed_is_readable_in_the_file_and_without_its_key_the_rest_is(
    database: Database, ring: KeyRing, tmp_path: Path
) -> None:
    spec = a_spec()
    await save_version(database, ring, spec, manifest_hash="m", now=1.0)
    await end_run(database, ring, ended(BEGUN))
    for file in tmp_path.rglob("*.*"):
        content = file.read_bytes()
        assert b"hunter2" not in content and b"spec.replicas" not in content, file
    async with database.reading() as connection:
        for table in (runs_table, versions_table):
            rows = repr((await connection.execute(select(table))).all())
            assert "hunter2" not in rows and "spec.replicas" not in rows
    assert await versions_of(database, ring, STACK) == [spec]
    stranger = KeyRing.of([key()])
    assert await versions_of(database, stranger, STACK) == []
    (run,) = await runs_of(database, STACK, ring=stranger)
    assert (run.result, run.summary) == (None, {"update": 1})


async def test_versions_know_their_manifest_and_the_oldest_go(database: Database, ring: KeyRing) -> None:
    specs = [a_spec(image=f"nginx:{index}") for index in range(7)]
    for index, spec in enumerate(specs):
        await save_version(database, ring, spec, manifest_hash=f"m{index}", now=float(index))
    assert await versions_of(database, ring, STACK) == specs[:1:-1]
    assert await manifest_of(database, STACK, specs[6].content_hash()) == "m6"
    assert await manifest_of(database, STACK, specs[0].content_hash()) == ""
    await save_version(database, ring, specs[2], manifest_hash="", now=99.0)
    assert (await versions_of(database, ring, STACK))[0] == specs[2]
    assert await manifest_of(database, STACK, specs[2].content_hash()) == "m2"
    await forget_versions(database, STACK)
    assert await versions_of(database, ring, STACK) == []


async def test_a_key_is_made_once_and_only_its_owner_reads_it(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store.key"
    first = await open_ring(database, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await open_ring(database, path)).ids == first.ids
    assert first.open(first.seal(b"x" * 1000)) == b"x" * 1000
    assert path.read_text().strip() not in repr(first)


async def test_a_lost_or_another_key_is_logged_and_destroys_nothing(
    database: Database, ring: KeyRing, tmp_path: Path
) -> None:
    await save_version(database, ring, a_spec(), manifest_hash="m", now=1.0)
    path = tmp_path / "store.key"
    with pytest.raises(StoreError, match=r"store\.key is missing.*restore the key, or move the store .*//.* away"):
        await open_ring(database, path)
    assert not path.exists()
    other = key()
    path.write_text(other)
    with pytest.raises(StoreError, match=f"encrypted with key {ring.newest}, which is not among") as error:
        await open_ring(database, path)
    assert other not in str(error.value)
    assert await versions_of(database, ring, STACK) == [a_spec()]


async def test_a_new_first_key_takes_over_and_then_the_old_one_may_go(database: Database, tmp_path: Path) -> None:
    path, old, new = tmp_path / "store.key", key(), key()
    path.write_text(old)
    ring = await open_ring(database, path)
    await save_version(database, ring, a_spec(), manifest_hash="m", now=1.0)
    await end_run(database, ring, ended(BEGUN))
    path.write_text(f"# since Monday\n{new}\n\n{old}\n")
    both = await open_ring(database, path)
    assert both.ids[1] == ring.newest
    path.write_text(new)
    only = await open_ring(database, path)
    assert await versions_of(database, only, STACK) == [a_spec()]
    (run,) = await runs_of(database, STACK, ring=only)
    assert run.result is not None


@pytest.mark.parametrize("content", ["", "\n#\n", "secretsecret", "ä" * 44, "A" * 43 + "!", "\0" * 44])
def test_a_file_that_holds_no_key_is_named_without_its_content(tmp_path: Path, content: str) -> None:
    path = tmp_path / "store.key"
    path.write_text(content)
    with pytest.raises(StoreError, match=r"store\.key has a line that is not a key") as error:
        load_ring(path)
    assert not content.strip("\n#") or content not in str(error.value)


def test_a_key_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Is a directory"):
        load_ring(tmp_path)


@given(st.binary(max_size=300))
def test_what_was_not_sealed_by_us_is_refused(body: bytes) -> None:
    with pytest.raises(StoreError, match="cannot be decrypted"):
        KeyRing.of([key()]).open(body)


SECOND = replace(LEASE, oseq=2)
THIRD = LeaseId("akash1other", 77, 1, 1, "akash1provider")


NAMES = {
    str(LEASE): LEASE,
    "akash1tenant/18446744073709551615/1/2": SECOND,
    "akash1tenant/18446744073709551615/1/2/": SECOND,
    "18446744073709551615/1/1": LEASE,
    "77": THIRD,
    "akash1other": THIRD,
    namespace_name(THIRD): THIRD,
    namespace_name(THIRD)[:6]: THIRD,
}
SEVERAL = ("18446744073709551615", "akash1tenant", "akash1tenant/18446744073709551615/1")
NONE = ("", "/", "a", "7", "akash1", "akash1oth", "%", "'; DROP TABLE leases", "\0" * 9, "9" * 10_000)


async def test_a_lease_is_found_by_what_an_operator_has_at_hand(database: Database) -> None:
    for lease in (LEASE, SECOND, THIRD):
        await save_status(database, a_status(lease))
    for name, meant in NAMES.items():
        assert (await find_lease(database, name)).lease == meant, name


async def test_a_name_that_means_several_or_none_lists_what_is_possible(database: Database) -> None:
    await save_status(database, a_status(LEASE, Phase.CLOSED))
    await save_status(database, a_status(SECOND))
    for name in SEVERAL:
        with pytest.raises(
            StoreError, match=r"may be .*/1/1/akash1provider \(closed\); .*/1/2/akash1provider \(running"
        ):
            await find_lease(database, name)
    for name in NONE:
        with pytest.raises(StoreError, match=r"there is no lease .*known are akash1tenant/18446744073709551615/1/2/"):
            await find_lease(database, name)


async def test_the_last_status_of_a_lease_replaces_the_one_before(database: Database) -> None:
    await save_status(database, a_status(LEASE, Phase.APPLYING))
    await save_status(database, a_status(LEASE))
    assert await known_leases(database) == [a_status(LEASE)]
    await save_status(database, a_status(LEASE, Phase.CLOSED))
    assert await known_leases(database) == []
    assert await known_leases(database, closed=True) == [a_status(LEASE, Phase.CLOSED)]


async def test_what_is_closed_long_enough_is_forgotten_with_its_runs(database: Database, ring: KeyRing) -> None:
    await save_status(database, a_status(LEASE, Phase.CLOSED, since=100.0))
    await save_status(database, a_status(THIRD, since=1.0))
    for stack, at in ((STACK, 90.0), (namespace_name(THIRD), 1.0), ("nobodys", 1.0), ("nobodys", 150.0)):
        await begin_run(database, replace(BEGUN, stack=stack, started_at=at))
    assert await forget_ended(database, before=100.0) == 1, "the old run of a stack without a lease"
    assert len(await runs_of(database, STACK)) == 1
    assert await forget_ended(database, before=100.5) == 3, "its run, its state and the lease"
    assert await known_leases(database, closed=True) == [a_status(THIRD, since=1.0)]
    assert [len(await runs_of(database, name)) for name in (STACK, namespace_name(THIRD), "nobodys")] == [0, 1, 1]


async def test_a_reader_works_beside_the_writer_and_after_it_and_writes_nothing(store_url: str) -> None:
    writer = await open_database(store_url)
    await save_status(writer, a_status(LEASE))
    reader = await read_database(store_url)
    assert await known_leases(reader) == [a_status(LEASE)]
    await save_status(writer, a_status(THIRD))
    assert len(await known_leases(reader)) == 2
    with pytest.raises(StoreError, match="cannot be written"):
        await save_status(reader, a_status(SECOND))
    await reader.close()
    await writer.close()
    after = await read_database(store_url)
    assert len(await known_leases(after)) == 2
    await after.close()


async def test_a_reader_makes_no_database_and_migrates_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no database .*x\.db"):
        await read_database(url(tmp_path))
    assert list(tmp_path.iterdir()) == []
    await _migrate_to(url(tmp_path), "0001")
    with pytest.raises(StoreError, match="has schema 0001, this lessor reads"):
        await read_database(url(tmp_path))


async def test_the_history_of_an_older_store_is_taken_over(empty_store_url: str, tmp_path: Path) -> None:
    await _migrate_to(empty_store_url, "0001")
    engine = create_async_engine(empty_store_url)
    row = "(:number, :lease, :stack, 'up', 10.0, 1.5, :ok, 'h', '{\"create\"\\: 1}', '[]', :error)"
    async with engine.begin() as connection:
        for ok, error, number in ((True, "", 1), (False, "boom", 2)):
            values = {"number": number, "ok": ok, "error": error, "lease": str(LEASE), "stack": STACK}
            await connection.execute(text(f"INSERT INTO stack_updates VALUES {row}"), values)
    await engine.dispose()
    database = await open_database(empty_store_url)
    newest, oldest = await runs_of(database, STACK, ring=KeyRing.of([key()]))
    assert (newest.outcome, newest.error, newest.ended_at) == (RunOutcome.FAILED, "boom", 11.5)
    assert (oldest.outcome, oldest.reason, oldest.summary) == (RunOutcome.DONE, RunReason.NOT_KEPT, {"create": 1})
    await open_ring(database, tmp_path / "store.key")
    number = await begin_run(database, BEGUN)
    assert number > 2
    await database.close()


async def _migrate_to(store: str, revision: str) -> None:
    import provider.store.database as module

    def migrate(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(module.__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_async_engine(store)
    async with engine.begin() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()
