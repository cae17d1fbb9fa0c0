"""Connections of peers that nobody knows: how many are kept, for how long, and what each may take."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from provider.gateway.admission import Admission, ConnectionLimits, peer_group
from provider.gateway.config import Limits
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.gateway.refusals import Refusals
from provider.gateway.turns import Turns
from tests.provider.gateway.world import World, new_world
from tests.world.patience import PATIENCE_S, eventually


def small(tmp_path: Path, **limits: float) -> World:
    connections = {"connections": 8, "of_one_address": 8, **limits}
    return new_world(tmp_path, connections=ConnectionLimits(**connections))  # type: ignore[arg-type]


def address(world: World) -> tuple[str, int]:
    return world.gateway.address


def kept(world: World) -> int:
    return world.gateway.admission.connections


async def idle(world: World, source: str = "127.0.0.1") -> asyncio.StreamWriter:
    """A connection that sends nothing, not even a TLS greeting."""
    _, writer = await asyncio.open_connection(*address(world), local_addr=(source, 0))
    return writer


async def test_no_more_connections_are_kept_than_one_address_and_all_may_have(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(small(tmp_path, connections=10, of_one_address=4).running())
        opened = [await idle(world) for _ in range(30)]
        await eventually(lambda: world.gateway.admission.refusals.total["connections of one address"] == 26)
        assert kept(world) == 4
        opened += [await idle(world, f"127.0.0.{host}") for host in (2, 2, 2, 3, 3, 3, 4, 4)]
        await eventually(lambda: world.gateway.admission.refusals.total["connections in all"] == 2)
        assert kept(world) == 10
        for writer in opened:
            writer.close()
        await eventually(lambda: kept(world) == 0)
        assert (await world.get("/address")).status == 200


async def test_a_peer_that_does_not_greet_is_let_go_after_the_limit_of_a_handshake(tmp_path: Path) -> None:
    async with small(tmp_path, handshake_s=0.3).running() as world:
        host, port = address(world)
        reader, writer = await asyncio.open_connection(host, port)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: kept(world) == 0)


async def test_a_client_that_pipelines_and_never_reads_is_let_go(tmp_path: Path) -> None:
    world = new_world(tmp_path, limits=Limits(write_seconds=0.3))
    free = Amounts(1, 0, 1, 1)
    nodes = tuple(NodeAmounts(f"node-{number}", free, free) for number in range(2000))
    world.status = ProviderStatus(nodes=nodes)
    async with world.running():
        reader, writer = await world.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        async def flood() -> None:
            while True:
                writer.write(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
                await writer.drain()

        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(PATIENCE_S):
                await flood()
        await eventually(lambda: kept(world) == 0)


async def test_a_header_of_many_long_lines_is_431_although_no_line_is_too_long(tmp_path: Path) -> None:
    async with new_world(tmp_path).running() as world:
        lines = b"".join(b"H%d: %s\r\n" % (number, b"a" * 60_000) for number in range(100))
        answer = await world.raw(b"GET /address HTTP/1.1\r\nHost: x\r\n" + lines)
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


async def test_a_long_body_is_no_header(tmp_path: Path) -> None:
    async with new_world(tmp_path).running() as world:
        answer = await world.send("GET", "/address", body=b"x" * 300_000)
        assert answer.status == 200


def test_an_ipv6_host_is_counted_by_its_network_and_a_mapped_address_as_ipv4() -> None:
    assert peer_group("2001:db8::1") == peer_group("2001:db8::ffff:1%eth0") == "2001:db8::/64"
    assert peer_group("2001:db8:0:1::1") != peer_group("2001:db8::1")
    assert peer_group("::ffff:192.0.2.7") == peer_group("192.0.2.7") == "192.0.2.7"


def test_refusals_are_counted_each_and_logged_once_a_minute() -> None:
    now = [0.0]
    admission = Admission(ConnectionLimits(connections=1), Refusals(lambda: now[0]))
    with capture_logs() as lines:
        assert admission.admit("192.0.2.1")
        for second in range(130):
            now[0] = float(second)
            assert not admission.admit("192.0.2.2")
    assert [line["refusals"] for line in lines] == [1, 60, 60]
    admission.release("192.0.2.1")
    assert admission.admit("192.0.2.2")


async def test_work_of_many_peers_is_done_in_several_passes_of_the_loop() -> None:
    turns, passes, done = Turns(), [0], []

    def count() -> None:
        passes[0] += 1
        asyncio.get_running_loop().call_soon(count)

    def work() -> None:
        done.append(passes[0])
        end = asyncio.get_running_loop().time() + 0.002
        while asyncio.get_running_loop().time() < end:
            pass

    asyncio.get_running_loop().call_soon(count)
    for _ in range(20):
        turns.add(work)
    await eventually(lambda: len(done) == 20)
    assert max(done.count(number) for number in done) <= 3
