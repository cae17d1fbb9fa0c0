"""Log streams: frames of the Go provider's form, followed through restarts and replacements, one reader's pace."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from wsproto.frame_protocol import Opcode

from lease.ids import namespace_name
from provider.errors import ClusterError
from provider.gateway.config import CaFiles, StreamLimits
from provider.gateway.tls import ensure_certificate
from provider.protocols.cluster import NAMESPACE
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.certificates import by_a_ca
from tests.provider.gateway.issuer.pebble import NAME, served
from tests.provider.gateway.manifests import TENANT, lease
from tests.provider.gateway.sockets import Client, opened
from tests.provider.gateway.world import PROVIDER, World, cluster_fails, new_world, place
from tests.world.patience import eventually
from tests.world.pods import pod_object

SPACE = namespace_name(lease())
PATH = "/lease/42/1/1/logs"


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path, streams=StreamLimits(streams=4, of_one_tenant=2, ping_seconds=0.05))
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        yield world


def runs(world: World, **pods: str) -> None:
    """The lease with its pods, by service; each has written two lines."""
    place(world.cluster, NAMESPACE, SPACE)
    for name, service in pods.items():
        changed(world, name, service)
        world.pods.log_of(name).write(f"{name} 1".encode(), f"{name} 2".encode())


def changed(world: World, name: str, service: str, **status: Any) -> None:
    """The pod as it is now."""
    pod = pod_object(SPACE, name, service, **status)
    world.cluster.put(pod)
    world.cluster.put(pod, status=True)


async def lines(client: Client, count: int) -> list[tuple[str, str]]:
    """The next messages; pings between them are left out."""
    found: list[tuple[str, str]] = []
    while len(found) < count and (each := await client.frame()) is not None:
        if each.opcode is Opcode.TEXT:
            document = json.loads(str(each.payload))
            found.append((document["name"], document["message"]))
    return found


async def ended(client: Client) -> tuple[int, str] | None:
    """Code and text of the close frame; None when the connection ends without one."""
    for each in await client.rest():
        if each.opcode is Opcode.CLOSE:
            assert isinstance(each.payload, tuple)
            return int(each.payload[0]), each.payload[1]
    return None


async def test_a_stream_ends_after_the_lines_without_a_close_frame(world: World) -> None:
    runs(world, one="web", two="web", store="db")
    async with opened(world, PATH, TENANT.token()) as client:
        assert client.answer.status == 101
        found = await lines(client, 6)
        assert sorted(found) == [(name, f"{name} {number}") for name in ("one", "store", "two") for number in (1, 2)]
        assert await ended(client) is None


@pytest.mark.parametrize("name", ["service", "services"])
async def test_services_and_a_tail_choose_lines(world: World, name: str) -> None:
    runs(world, one="web", store="db", other="api")
    async with opened(world, f"{PATH}?{name}=web,%20db&tail=1", TENANT.token()) as client:
        assert sorted(await lines(client, 9)) == [("one", "one 2"), ("store", "store 2")]


async def test_a_line_is_written_as_go_writes_it(world: World) -> None:
    runs(world)
    changed(world, "one", "web")
    world.pods.log_of("one").write('é☃ "quoted" <tag> & \\ back\ttab\r'.encode(), b"\xff\x00", b"", b"x" * 70_000)
    async with opened(world, PATH, TENANT.token()) as client:
        frames = [each for each in await client.rest() if each.opcode is Opcode.TEXT]
    head = '{"name":"one","message":"'
    assert [str(each.payload) for each in frames] == [
        head + 'é☃ \\"quoted\\" \\u003ctag\\u003e \\u0026 \\\\ back\\ttab"}\n',
        head + '\ufffd\\u0000"}\n',
        head + '"}\n',
        head + "x" * 65536 + '"}\n',
        head + "x" * (70_000 - 65536) + '"}\n',
    ]


async def test_an_unknown_lease_and_one_without_pods_are_told_by_their_close_codes(world: World) -> None:
    async with opened(world, PATH, TENANT.token()) as client:
        assert await ended(client) == (4001, "")
    runs(world, one="web")
    async with opened(world, f"{PATH}?service=nope", TENANT.token()) as client:
        assert await ended(client) == (4000, "no running pods")


@pytest.mark.parametrize(("status", "code"), [(0, 4002), (404, 4001), (500, 4000)])
async def test_an_error_of_the_cluster_is_a_close_code(world: World, status: int, code: int) -> None:
    runs(world, one="web")
    world.pods.refuse = lambda _: ClusterError("https://fake", "no luck", status=status)
    async with opened(world, f"{PATH}?follow=1", TENANT.token()) as client:
        assert await ended(client) == (code, "")
    async with opened(world, PATH, TENANT.token()) as client:
        assert await ended(client) == (code, "")
    cluster_fails(world.cluster, 500)
    async with opened(world, PATH, TENANT.token()) as client:
        assert await ended(client) == (4000, "")


async def test_a_followed_log_is_pinged_and_ends_with_its_lease(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=true&tail=0", TENANT.token()) as client:
        assert [each and each.opcode for each in await client.frames(2)] == [Opcode.PING, Opcode.PING]
        world.pods.log_of("one").write(b"live")
        assert await lines(client, 1) == [("one", "live")]
        world.cluster.remove(("v1", "Namespace", "", SPACE))
        world.pods.log_of("one").end()
        world.cluster.remove(("v1", "Pod", SPACE, "one"))
        assert await ended(client) is None


async def test_fifty_streams_go_on_while_both_certificates_are_replaced(tmp_path: Path) -> None:
    file = by_a_ca(NAME).write(tmp_path / "ca.pem")
    world = new_world(tmp_path, ca_files=CaFiles(file, file), public_hostname=NAME)
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running(), AsyncExitStack() as stack:
        runs(world, one="web")
        streams = [opened(world, f"{PATH}?follow=true&tail=0", TENANT.token()) for _ in range(50)]
        clients = [await stack.enter_async_context(stream) for stream in streams]
        await eventually(lambda: world.pods.open == len(clients))
        port, before = world.gateway.address[1], world.gateway.served.account.certificate
        other = by_a_ca(NAME)
        other.write(file)
        world.gateway.served.replace(ensure_certificate(PROVIDER, tmp_path / "next", now=NOW))
        assert await served(port, NAME) == other.certificate
        assert await served(port, "") not in (before, other.certificate)
        world.pods.log_of("one").write(b"afterwards")
        assert [await lines(client, 1) for client in clients] == [[("one", "afterwards")]] * 50


async def test_a_pod_that_is_replaced_is_followed_by_its_successor(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=1&tail=1", TENANT.token()) as client:
        assert await lines(client, 1) == [("one", "one 2")]
        changed(world, "two", "web", container="")
        world.pods.log_of("two").write(b"two 1", b"two 2")
        changed(world, "two", "web")
        world.pods.log_of("one").end()
        world.cluster.remove(("v1", "Pod", SPACE, "one"))
        assert await lines(client, 2) == [("two", "two 1"), ("two", "two 2")]


async def test_a_restarted_container_is_followed_without_a_gap_and_nothing_comes_twice(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=1", TENANT.token()) as client:
        assert await lines(client, 2) == [("one", "one 1"), ("one", "one 2")]
        before = world.pods.log_of("one")
        before.cut()
        await eventually(lambda: world.pods.open == 0)
        before.write(b"last words")
        world.pods.restart("one").write(b"again 1", stamp="2026-11-29T02:00:00.5Z")
        changed(world, "one", "web", container="c2", restarts=1)
        assert await lines(client, 2) == [("one", "last words"), ("one", "again 1")]


async def test_lines_that_may_be_lost_are_marked(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=1&tail=1", TENANT.token()) as client:
        assert await lines(client, 1) == [("one", "one 2")]
        world.pods.restart("one")
        world.pods.restart("one").write(b"third", stamp="2026-11-29T02:00:00.5Z")
        changed(world, "one", "web", container="c3", restarts=2)
        assert await lines(client, 2) == [
            ("one", "lessor: the container was restarted; lines may be missing here"),
            ("one", "third"),
        ]


async def test_a_connection_that_breaks_is_resumed_after_the_last_line(world: World) -> None:
    runs(world, one="web")
    stamp = "2026-11-29T01:00:07.25Z"
    async with opened(world, f"{PATH}?follow=1", TENANT.token()) as client:
        assert await lines(client, 2) == [("one", "one 1"), ("one", "one 2")]
        world.pods.log_of("one").write(b"same 1", b"same 2", stamp=stamp)
        assert await lines(client, 2) == [("one", "same 1"), ("one", "same 2")]
        world.pods.log_of("one").cut()
        await eventually(lambda: world.pods.open == 0)
        world.pods.log_of("one").write(b"same 3", stamp=stamp)
        world.pods.log_of("one").write(b"later", stamp="2026-11-29T01:00:07.251Z")
        assert await lines(client, 2) == [("one", "same 3"), ("one", "later")]


async def test_a_client_that_closes_gets_its_code_back_and_the_pods_stream_ends(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=1&tail=1", TENANT.token()) as client:
        await lines(client, 1)
        client.send(Opcode.TEXT, b"is ignored")
        client.send(Opcode.CLOSE, (1000).to_bytes(2, "big"))
        assert await ended(client) == (1000, "")
    await eventually(lambda: world.pods.open == 0)


async def test_a_client_that_leaves_ends_the_pods_stream(world: World) -> None:
    runs(world, one="web")
    async with opened(world, f"{PATH}?follow=1&tail=1", TENANT.token()) as client:
        await lines(client, 1)
    await eventually(lambda: world.pods.open == 0)


async def test_above_the_limits_of_streams_the_answer_is_429_and_says_when_to_try_again(world: World) -> None:
    runs(world, one="web")
    async with (
        opened(world, f"{PATH}?follow=1", TENANT.token()) as first,
        opened(world, f"{PATH}?follow=1", TENANT.token()) as second,
    ):
        assert (first.answer.status, second.answer.status) == (101, 101)
        await lines(second, 1)
        async with opened(world, f"{PATH}?follow=1", TENANT.token()) as third:
            assert third.answer.status == 429
            assert third.answer.header("Retry-After") == "5"
        assert world.gateway.admission.refusals.total["streams of one tenant"] == 1
    await eventually(lambda: world.pods.open == 0)
    async with opened(world, f"{PATH}?follow=1", TENANT.token()) as fourth:
        assert fourth.answer.status == 101


async def test_a_stop_of_the_gateway_ends_the_streams_at_once(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    runs(world, one="web")
    async with world.running():
        connection = opened(world, f"{PATH}?follow=1&tail=1", TENANT.token())
        client = await connection.__aenter__()
        await lines(client, 1)
    assert await ended(client) == (1001, "")
    await connection.__aexit__(None, None, None)
    await asyncio.sleep(0)


async def test_a_reader_that_takes_nothing_makes_the_pod_wait(world: World) -> None:
    runs(world, one="web")
    log, read = world.pods.log_of("one"), 0

    async def endless():
        nonlocal read
        while True:
            read += 1
            yield b"x" * 1023 + b"\n"

    world.pods.endless["one"] = endless
    async with opened(world, PATH, TENANT.token()) as client:
        await lines(client, 1)
        seen = -1
        while seen != read:  # nothing more is read once every buffer on the way is full
            seen = read
            for _ in range(50):
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
        assert log.lines
        assert read < 16 * 1024  # lines of 1 KiB: the buffers of sockets and connections, not the log
