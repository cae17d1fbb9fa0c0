"""`KubePods` against a scripted API server: logs at the reader's pace, commands over both protocols, refusals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from provider.errors import ClusterError
from provider.protocols.cluster import SECRET
from provider.protocols.pods import Channel, Command, LogRequest
from tests.provider.kube.test_bad_servers import server, status
from tests.world.patience import eventually

LOG = LogRequest("ns", "web-1", "web")
COMMAND = Command("ns", "web-1", "web", ("sh", "-c", "echo 'a b' && x"), stdin=True)


async def test_a_log_is_asked_for_with_its_options_and_read_as_it_comes(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == "/proxy/api/v1/namespaces/ns/pods/web-1/log"
        asked.append(dict(request.query))
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        await response.write(b"o\n")
        return response

    async with server(tmp_path, handler) as cluster:
        follow = LogRequest("ns", "web-1", "web", follow=True, tail=3, since="2026-11-29T01:00:00Z", timestamps=True)
        for request in (LOG, follow, LogRequest("ns", "web-1", "web", previous=True, tail=0)):
            async with cluster.pods.log(request) as pieces:
                assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"
    assert asked == [
        {"container": "web"},
        {
            "container": "web",
            "follow": "true",
            "tailLines": "3",
            "sinceTime": "2026-11-29T01:00:00Z",
            "timestamps": "true",
        },
        {"container": "web", "tailLines": "0", "previous": "true"},
    ]


async def test_a_reader_that_waits_makes_the_api_server_wait(tmp_path: Path) -> None:
    written = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(16 * 1024):
            await response.write(b"x" * 64 * 1024)
            written += 1
        return response

    async with server(tmp_path, handler) as cluster, cluster.pods.log(LOG) as pieces:
        await anext(pieces)
        seen = -1
        while seen != written:  # until the buffers of both sockets and of the connection are full
            seen = written
            await asyncio.sleep(0.1)
        assert written < 1024, "64 MiB of a log of 1 GiB"


async def test_a_refused_log_and_one_that_breaks_are_errors_of_the_cluster(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.query.get("follow"):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one\n")
            assert request.transport is not None
            request.transport.abort()
            return response
        return status(400, "container is waiting to start")

    async with server(tmp_path, handler) as cluster:
        with pytest.raises(ClusterError, match="waiting to start") as caught:
            async with cluster.pods.log(LOG):
                pass
        assert caught.value.status == 400
        with pytest.raises(ClusterError) as caught:
            async with cluster.pods.log(LogRequest("ns", "web-1", "web", follow=True)) as pieces:
                [piece async for piece in pieces]
        assert caught.value.status == 0


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_command_runs_over_either_protocol(tmp_path: Path, protocol: str) -> None:
    received: list[bytes] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.path == "/proxy/api/v1/namespaces/ns/pods/web-1/exec"
        assert request.query.getall("command") == ["sh", "-c", "echo 'a b' && x"]
        flags = {name: request.query.get(name) for name in ("container", "stdin", "stdout", "stderr", "tty")}
        assert flags == {"container": "web", "stdin": "true", "stdout": "true", "stderr": "true", "tty": None}
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        for channel in (b"\x01", b"\x02", b"\x03"):  # as a real API server begins
            await socket.send_bytes(channel)
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x02err")
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            received.append(message.data)
            if message.data[:1] == b"\x04":
                break
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket

    async with server(tmp_path, handler) as cluster, cluster.pods.execute(COMMAND) as execution:
        await execution.write(b"abc")
        await execution.end_input()
        await execution.resize(100, 33)
        found = [item async for item in execution]
    assert found == [(Channel.STDOUT, b"out"), (Channel.STDERR, b"err"), (Channel.RESULT, b'{"status":"Success"}')]
    end = [b"\xff\x00"] if protocol == "v5.channel.k8s.io" else []
    assert received[:-1] == [b"\x00abc", *end]
    assert json.loads(received[-1][1:]) == {"Width": 100, "Height": 33}


async def test_leaving_a_command_closes_its_connection(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for _ in socket:
            pass
        closed.set()
        return socket

    async with server(tmp_path, handler) as cluster:
        async with cluster.pods.execute(COMMAND):
            pass
        await eventually(closed.is_set)


async def test_a_refused_command_has_the_status(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return status(403, "no")

    async with server(tmp_path, handler) as cluster:
        with pytest.raises(ClusterError) as caught:
            async with cluster.pods.execute(COMMAND):
                pass
    assert caught.value.status == 403


async def test_a_hundred_streams_take_no_connection_of_other_requests(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/log"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(60)
            return response
        return web.json_response({"items": []})

    async with server(tmp_path, handler, timeout_seconds=60.0) as cluster:

        async def read() -> None:
            async with cluster.pods.log(LOG) as pieces:
                opened.append(True)
                async for _ in pieces:
                    pass

        opened: list[bool] = []
        tasks = [asyncio.create_task(read()) for _ in range(101)]
        await eventually(lambda: len(opened) == 101)
        assert await cluster.list(SECRET) == []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
