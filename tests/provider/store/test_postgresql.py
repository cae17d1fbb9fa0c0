"""The same store on PostgreSQL: a server of the test's own, on loopback, in a folder that goes with it.

Needs `initdb` and `postgres`, and the driver (`pip install lessor[postgresql]`); without them it is skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from lease.ids import namespace_name
from provider.errors import StoreError
from provider.lifecycle.state import Phase
from provider.runs.log import begin_run, end_run, interrupt_runs, keep_newest_runs, last_run, runs_of
from provider.runs.versions import save_version, versions_of
from provider.store import open_database, read_database
from provider.store.cursors import load_cursor, save_cursor
from provider.store.leases import find_lease, forget_ended, known_leases, save_status
from provider.store.ring import open_ring
from provider.store.tables import metadata
from tests.provider.runs.test_runs import BEGUN, LEASE, STACK, THIRD, a_spec, a_status, ended, key

FOLDERS = ("/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/15/bin")
NOBODY = 65534


def _program(name: str) -> str:
    path = shutil.which(name, path=os.pathsep.join((*FOLDERS, os.environ.get("PATH", ""))))
    if path is None:
        pytest.skip(f"PostgreSQL's {name} is not here")
    return path


@pytest.fixture
def server() -> Iterator[str]:
    """A SQLAlchemy URL. PostgreSQL refuses to run as root, so root lends it to nobody."""
    pytest.importorskip("asyncpg", reason="the driver asyncpg is not installed")
    initdb, postgres = _program("initdb"), _program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="lessor-pg-"))
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        os.chown(folder, user, -1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = [initdb, "-D", f"{folder}/data", "-U", "lessor", "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(made, user=user, cwd=folder, check=True, capture_output=True, timeout=120)
    settings = ("listen_addresses=127.0.0.1", f"port={port}", f"unix_socket_directories={folder}", "fsync=off")
    argv = [postgres, "-D", f"{folder}/data", *(part for item in settings for part in ("-c", item))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, user=user, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(port, process)
        yield f"postgresql+asyncpg://lessor@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("PostgreSQL did not start")


async def test_the_store_is_the_same_on_postgresql(server: str, tmp_path: Path) -> None:
    database = await open_database(server)
    async with database.reading() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), metadata)
        )
    assert differences == []
    await save_cursor(database, "local", height=2**40, now=1.0)
    assert await load_cursor(database, "local") == 2**40

    path = tmp_path / "store.key"
    ring = await open_ring(database, path)
    for index in range(5):
        number = await begin_run(database, replace(BEGUN, spec_hash=str(index)))
        await end_run(database, ring, ended(replace(BEGUN, spec_hash=str(index), id=number)))
    await begin_run(database, replace(BEGUN, spec_hash="cut off"))
    assert await interrupt_runs(database) == 1
    await keep_newest_runs(database, STACK, keep=3)
    found = await runs_of(database, STACK, ring=ring)
    assert [run.spec_hash for run in found] == ["cut off", "4", "3"]
    assert found[1].result is not None
    last = await last_run(database, STACK)
    assert last is not None and last.spec_hash == "cut off"

    for image in ("nginx:1", "nginx:2"):
        await save_version(database, ring, a_spec(image=image), manifest_hash="m", now=1.0)
    assert len(await versions_of(database, ring, STACK)) == 2
    new = key()
    path.write_text(f"{new}\n{path.read_text()}")
    await open_ring(database, path)
    path.write_text(new)
    assert len(await versions_of(database, await open_ring(database, path), STACK)) == 2

    await save_status(database, a_status(LEASE, Phase.CLOSED, since=100.0))
    await save_status(database, a_status(THIRD))
    assert (await find_lease(database, namespace_name(THIRD)[:8])).lease == THIRD
    await _read(server)
    assert await forget_ended(database, before=101.0) == 1
    assert [status.lease for status in await known_leases(database, closed=True)] == [THIRD]
    await database.close()


async def _read(server: str) -> None:
    """Beside the writer, and writing nothing."""
    reader = await read_database(server)
    assert len(await known_leases(reader, closed=True)) == 2
    with pytest.raises(StoreError, match="read-only"):
        await save_status(reader, a_status(THIRD))
    await reader.close()
