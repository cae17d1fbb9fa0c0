"""A leader that is suspended, replaced and woken: no worker begins anything for it any more."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from provider.store import open_database
from provider.store.tables import stack_operations
from tests.provider.workers.parts import leader, worker
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually
from tests.world.postgresql_server import PostgresqlServer
from tests.world.processes import start_process
from tests.world.redis_server import a_redis

pytestmark = pytest.mark.xdist_group("postgresql")
ROOT = Path(__file__).parents[3]


def begun(journal: Path) -> list[str]:
    """The stacks of the operations that workers have begun, in their order."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [line.split()[1] for line in lines if line.startswith("begin")]


@pytest.mark.long  # it waits for a term to run out
async def test_workers_begin_nothing_for_a_leader_that_wakes_after_another_one_has_begun(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    url, journal = await asyncio.to_thread(postgresql.new_database, migrated=True), tmp_path / "journal"
    server = ApiServerInMemory(RecordedCluster("lease"), tmp_path)
    await server.start()

    def candidate(name: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "tests.provider.workers.leading", server.kubeconfig, url, redis.url, tmp_path]
        return start_process([*argv, name], cwd=ROOT, stdout=subprocess.DEVNULL)

    with a_redis(tmp_path) as redis:
        try:
            for name in ("w0", "w1"):
                worker(url, redis.url, journal, name, server.kubeconfig)
            first = candidate("a")
            await eventually(lambda: len(begun(journal)) > 4)
            first.send_signal(signal.SIGSTOP)
            candidate("b")
            await eventually(lambda: "b-0" in begun(journal))
            first.send_signal(signal.SIGCONT)
            assert await asyncio.to_thread(first.wait, 240) == 3, "its term is over"
            async with leader(url, redis.url, tmp_path, term=lambda: 1) as unfenced:
                asking = asyncio.create_task(unfenced.destroy("a-late"))
                woken = len(begun(journal))
                await eventually(lambda: len(begun(journal)) > woken + 8)
                asking.cancel()
        finally:
            await server.stop()
    names = [stack.partition("-")[0] for stack in begun(journal)]
    assert names == sorted(names), "what the first leader asked for began before the second led, or never"
    assert "a-late" not in begun(journal), "nor what is asked for in its term without its own fence"


async def test_a_leader_whose_term_is_over_asks_for_nothing(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    """A row of it would replace the one by which the next leader has asked."""
    url = await asyncio.to_thread(postgresql.new_database, migrated=True)
    with a_redis(tmp_path) as redis:
        async with leader(url, redis.url, tmp_path, over=lambda: "its term is over") as engine:
            result = await engine.destroy("a")
    assert not result.ok and result.error == "its term is over"
    database = await open_database(url)
    async with database.reading() as connection:
        assert not (await connection.execute(select(stack_operations))).all()
    await database.close()
