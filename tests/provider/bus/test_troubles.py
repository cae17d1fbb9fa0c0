"""A Redis that is dead, slow, full or something else: the own process goes on, and the others hear it again later."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from structlog.testing import capture_logs

from provider.bus import Overflow
from provider.bus.redis import RedisBus
from provider.bus.redis_url import redis_client, url_problem
from provider.metrics import sample
from tests.provider.bus.world import A, B, a_bus, running, take
from tests.world.patience import eventually
from tests.world.redis_server import RedisServer, a_redis
from tests.world.servers import free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with a_redis(tmp_path) as made:
        yield made


async def _serves_its_own(bus: RedisBus) -> None:
    async with bus.subscribe(B) as own:
        bus.publish(B, 1)
        assert await take(own) == [1]


async def test_a_provider_that_starts_without_redis_works_and_finds_it_later(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    bus = a_bus(server.url)
    with capture_logs() as logs:
        async with running(bus, connected=False):
            await eventually(lambda: any(each["event"] == "bus.unreachable" for each in logs))
            await _serves_its_own(bus)
            bus.publish(A, 4, retain=True)
            server.start()
            try:
                await asyncio.wait_for(bus.connected.wait(), 60)
                await eventually(lambda: '"value":4' in server.ask("KEYS", "*") + _kept(server))
            finally:
                server.stop()
    assert len([each for each in logs if each["event"] == "bus.unreachable"]) <= 2


def _kept(server: RedisServer) -> str:
    return "".join(server.ask("GET", key) for key in server.ask("KEYS", "lessor:*").split())


async def test_after_a_restart_an_empty_redis_has_the_retained_values_and_subscribers_check_everything(
    server: RedisServer,
) -> None:
    provider = token_hex(8)
    writer, reader = a_bus(server.url, provider=provider), a_bus(server.url, provider=provider)
    async with running(writer, reader), reader.subscribe(B) as heard:
        writer.publish(A, 1, retain=True)
        await eventually(lambda: '"value":1' in _kept(server))
        server.stop()
        await eventually(lambda: not (writer.connected.is_set() or reader.connected.is_set()))
        assert sample("lessor_bus_connected") == 0
        await _serves_its_own(writer)
        server.start()
        await eventually(lambda: '"value":1' in _kept(server))
        assert await take(heard) == [Overflow(0)]
        await eventually(reader.connected.is_set)
        writer.publish(B, 2)
        while (await take(heard))[0] != 2:
            pass


async def test_a_suspended_redis_is_left_and_found_again(server: RedisServer) -> None:
    bus = a_bus(server.url, silent_s=0.2)
    async with running(bus):
        server.send_signal(signal.SIGSTOP)
        await eventually(lambda: not bus.connected.is_set())
        await _serves_its_own(bus)
        server.send_signal(signal.SIGCONT)
        await eventually(bus.connected.is_set)


async def test_a_full_redis_still_carries_what_it_need_not_keep(server: RedisServer) -> None:
    provider = token_hex(8)
    writer, reader = a_bus(server.url, provider=provider), a_bus(server.url, provider=provider)
    async with running(writer, reader), reader.subscribe(A, B) as heard:
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with capture_logs() as logs:
            writer.publish(A, 1, retain=True)
            await eventually(lambda: any("OutOfMemory" in each.get("problem", "") for each in logs))
            writer.publish(B, 2)
            assert await take(heard) == [2]
        assert writer.connected.is_set()
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert await take(heard) == [1]


async def test_a_server_of_another_protocol_is_no_redis_and_stops_nothing() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    port = free_port()
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        bus = a_bus(f"redis://127.0.0.1:{port}")
        with capture_logs() as logs:
            async with running(bus, connected=False):
                await eventually(lambda: any(each["event"] == "bus.unreachable" for each in logs))
                await _serves_its_own(bus)
                assert not bus.connected.is_set()


async def test_foreign_and_broken_messages_are_ignored(redis_server: RedisServer) -> None:
    provider = token_hex(8)
    other, bus = a_bus(redis_server.url), a_bus(redis_server.url, provider=provider)
    sound = {"provider": provider, "sender": "x", "at": 1.0, "value": 3}
    before = sample("lessor_bus_lost_total", why="refused") or 0.0
    async with running(bus, other), bus.subscribe(A) as heard, redis_client(redis_server.url, timeout_s=5) as client:
        other.publish(A, 1, retain=True)
        for text in ("", "{", "[]", '{"value": 1}', json.dumps(sound | {"value": "many"}), "\xff", json.dumps(sound)):
            await client.publish(A, text)
        assert await take(heard) == [3]
    refused = (sample("lessor_bus_lost_total", why="refused") or 0.0) - before
    assert refused == 6 + 5, "by the own process, and by the other, which does not read values of a foreign provider"


async def test_messages_wait_for_redis_up_to_a_limit(tmp_path: Path) -> None:
    bus = a_bus(f"redis://127.0.0.1:{free_port()}")
    before = sample("lessor_bus_lost_total", why="full") or 0.0
    for value in range(10_003):
        bus.publish(B, value)
    assert (sample("lessor_bus_lost_total", why="full") or 0.0) - before == 3


@pytest.mark.long
async def test_a_sentinel_names_the_master_and_the_bus_follows_it(tmp_path: Path) -> None:
    with a_redis(tmp_path) as first, a_redis(tmp_path, "--replicaof", "127.0.0.1", str(first.port)) as second:
        config = tmp_path / "sentinel.conf"
        config.write_text(
            f"sentinel monitor main 127.0.0.1 {first.port} 1\nsentinel down-after-milliseconds main 500\n"
        )
        with a_redis(tmp_path, str(config), "--sentinel") as sentinel:
            await eventually(lambda: f"port={second.port}" in sentinel.ask("INFO", "sentinel") + _slaves(sentinel))
            bus = a_bus(f"redis+sentinel://127.0.0.1:{sentinel.port}/main/0", silent_s=1.0)
            async with running(bus):
                bus.publish(A, 1, retain=True)
                await eventually(lambda: '"value":1' in _kept(first))
                first.stop()
                await eventually(lambda: "role:master" in second.ask("INFO", "replication"))
                bus.publish(A, 2, retain=True)
                await eventually(lambda: '"value":2' in _kept(second))


def _slaves(sentinel: RedisServer) -> str:
    lines = sentinel.ask("SENTINEL", "REPLICAS", "main").split()
    return " ".join(f"port={each}" for each in lines)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis://host:6379/0", ""),
        ("rediss://user:hunter2@host", ""),
        ("redis+sentinel://:hunter2@a:26379,b/main/1?sentinel_password=x", ""),
        ("unix:///run/redis.sock", ""),
        ("http://host", "its scheme is 'http'"),
        ("host:6379", "its scheme is 'host'"),
        ("redis+sentinel://a,b", "the name of the service is missing"),
        ("redis+sentinel://a:port/main", "it cannot be read"),
        ("redis://:hunter2/x@host", "it cannot be read"),
        ("redis://:12/hunter2@host", "it cannot be read"),
        ("redis://:12#hunter2@host", "it cannot be read"),
        ("redis://:hunter2?x@host", "it cannot be read"),
        ("redis://:12?hunter2@host", "it cannot be read"),
        ("redis+sentinel://:hunter2/x@a/main", "it cannot be read"),
    ],
)
def test_a_url_that_names_no_redis_is_explained_without_its_password(url: str, problem: str) -> None:
    assert url_problem(url).startswith(problem)
    assert bool(url_problem(url)) == bool(problem)
    assert "hunter2" not in url_problem(url)
