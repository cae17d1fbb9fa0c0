"""Workers on a real Redis and a real PostgreSQL: killed, called twice, without Redis; each lease is done once."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provider.workers.queued_engine import QueuedEngine
from stacks.common import StackResult
from tests.provider.workers.parts import leader, worker
from tests.world.patience import eventually
from tests.world.postgresql_server import PostgresqlServer
from tests.world.redis_server import RedisServer, a_redis

pytestmark = pytest.mark.xdist_group("postgresql")
LEASES = [f"lease-{number}" for number in range(12)]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with a_redis(tmp_path) as server:
        yield server


class Fleet:
    """Three workers by name; one that is killed is started again, as a supervisor would."""

    def __init__(self, start: Callable[[str], subprocess.Popen[bytes]]) -> None:
        self._start, self._numbers = start, itertools.count()
        self.running = {name: start(name) for name in (f"w{next(self._numbers)}" for _ in range(3))}

    def kill(self, name: str) -> None:
        self.running.pop(name).send_signal(signal.SIGKILL)
        fresh = f"w{next(self._numbers)}"
        self.running[fresh] = self._start(fresh)


def lines(journal: Path) -> list[list[str]]:
    return [line.split() for line in journal.read_text().splitlines()] if journal.exists() else []


def assert_one_at_a_time(journal: Path, killed: set[str]) -> None:
    """Between the beginning and the end of an operation nobody else begins it, unless its worker was killed."""
    holders: dict[str, str] = {}
    for what, stack, name in lines(journal):
        if what == "begin":
            assert holders.get(stack, name) in {name, *killed}, f"{stack}: {holders[stack]} and {name} at once"
            holders[stack] = name
        else:
            del holders[stack]


async def all_destroyed(engine: QueuedEngine, stacks: list[str]) -> list[StackResult]:
    return await asyncio.gather(*(engine.destroy(stack) for stack in stacks))


async def test_a_worker_that_is_killed_in_an_operation_is_replaced_and_each_lease_is_done_once(
    postgresql: PostgresqlServer, redis: RedisServer, tmp_path: Path
):
    url, journal = await asyncio.to_thread(postgresql.new_database, migrated=True), tmp_path / "journal"
    fleet = Fleet(lambda name: worker(url, redis.url, journal, name))
    killed: set[str] = set()

    def busy() -> list[str]:
        begun = [name for what, _, name in lines(journal) if what == "begin"]
        ended = Counter(name for what, _, name in lines(journal) if what == "end")
        return [name for name, count in Counter(begun).items() if count > ended[name] and name in fleet.running]

    async with leader(url, redis.url, tmp_path) as engine:
        running = asyncio.create_task(engine.run())
        asked = asyncio.create_task(all_destroyed(engine, LEASES))
        for _ in range(2):
            await eventually(lambda: bool(busy()) or asked.done())
            if found := busy():
                killed.add(found[0])
                fleet.kill(found[0])
        results = await asked
        running.cancel()
    assert killed, "no worker was killed in an operation"
    assert [result.stack for result in results if result.ok] == LEASES
    assert_one_at_a_time(journal, killed)
    done = Counter(stack for what, stack, _ in lines(journal) if what == "end")
    assert set(done) == set(LEASES) and done.total() <= len(LEASES) + len(killed)
    begun = Counter(stack for what, stack, _ in lines(journal) if what == "begin")
    assert begun.total() > len(LEASES), "what a killed worker had begun was begun again"


async def test_a_redis_that_comes_back_empty_loses_nothing_and_a_task_that_comes_twice_does_nothing(
    postgresql: PostgresqlServer, redis: RedisServer, tmp_path: Path
):
    url, journal = await asyncio.to_thread(postgresql.new_database, migrated=True), tmp_path / "journal"
    async with leader(url, redis.url, tmp_path) as engine:
        running = asyncio.create_task(engine.run())
        asked = asyncio.create_task(all_destroyed(engine, LEASES[:4]))
        await eventually(lambda: redis.ask("DBSIZE") not in ("0", ""))
        redis.stop()
        redis.start()
        assert redis.ask("DBSIZE") == "0"
        worker(url, redis.url, journal, "late")
        results = await asked
        for stack in LEASES[:4]:
            assert not await engine._bell.ring(stack, 0)
        await eventually(lambda: redis.ask("HLEN", "unacked") == "0" and "lessor" not in redis.ask("KEYS", "lessor-*"))
        running.cancel()
    assert all(result.ok for result in results)
    assert Counter(stack for what, stack, _ in lines(journal) if what == "begin") == dict.fromkeys(LEASES[:4], 1)
