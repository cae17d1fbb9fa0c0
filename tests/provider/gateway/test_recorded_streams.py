"""The recorded streams of the Go provider, played again: same answer to the handshake, frames and end, but for listed
differences. The fake pods write what the record shows that the real ones wrote.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from wsproto.frame_protocol import Frame, Opcode

from lease.ids import namespace_name
from provider.errors import ClusterError
from provider.protocols.cluster import EVENT
from provider.protocols.pods import Channel, Command
from tests.provider.gateway import recorded
from tests.provider.gateway.differences import STREAM_DIFFERENCES
from tests.provider.gateway.sockets import Client, opened
from tests.provider.gateway.world import World, new_world
from tests.world.pods import FakeExecution, exit_status, pod_object

_STDOUT, _STDERR, _RESULT = 100, 101, 102
_SPACE = namespace_name(recorded.lease_of(recorded.issuer(recorded.record("manifest", "accepted")), recorded.MAIN))
_SERVICES = {"web-74b8fc79-bkn6n": "web", "web-74b8fc79-ftgvx": "web", "db-0": "db"}
_MISSING = 'failed to start exec: exec: "/no/such": stat /no/such: no such file or directory'


def payload(frame: dict[str, Any]) -> bytes:
    if frame.get("payload_base64") is not None:
        return base64.b64decode(frame["payload_base64"])
    return (frame.get("payload") or "").encode()


def replayed(file: str) -> list[Any]:
    rows = [row for row in recorded.records(file) if "request" in row and row["name"] != "client certificate"]
    names = [row["name"] for row in rows]
    assert not {name for known, name in STREAM_DIFFERENCES if known == file} - set(names)
    return [pytest.param(row, id=row["name"]) for row in rows if (file, row["name"]) not in STREAM_DIFFERENCES]


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path)
    recorded.fill_chain(world)
    recorded.fill_cluster(world, addresses=True)
    for pod, service in _SERVICES.items():
        world.cluster.put(pod_object(_SPACE, pod, service))
        world.pods.log_of(pod)
    async with world.running():
        yield world


def connect(world: World, row: recorded.Record) -> Any:
    """The recorded request. A lease of a later recording has the namespace of the first."""
    world.clock.set(recorded.moment(row) if recorded.header(row, "Date") else issued(row))
    request = row["request"]
    path = request["path"].replace("/82101160/", f"/{recorded.MAIN}/")
    return opened(world, path, headers=[tuple(pair) for pair in request["headers"]], method=request["method"])


def issued(row: recorded.Record) -> float:
    claims = recorded.token_of(row).split(".")[1]
    return float(json.loads(base64.urlsafe_b64decode(claims + "=="))["iat"]) + 1


def same_answer(client: Client, row: recorded.Record) -> None:
    theirs = row["response"]
    assert client.answer.status == theirs["status"]
    if theirs["status"] == 101:
        assert client.answer.headers == [tuple(pair) for pair in theirs["headers"]]
        return
    for name in ("Content-Type", "X-Content-Type-Options", "Sec-Websocket-Version", "Content-Length"):
        assert client.answer.header(name) == recorded.header(row, name), name
    if theirs.get("body") is not None:
        assert client.answer.text == theirs["body"]


async def same_end(client: Client, row: recorded.Record) -> None:
    """The connection ends as recorded: with the close frame, without one, or not at all."""
    if row.get("end") not in (None, "still open when recording stopped"):
        closes = [payload(each) for each in served(row) if each["opcode"] == Opcode.CLOSE]
        assert [closed(each) for each in await client.rest()] == [each or b"\x03\xe8" for each in closes]


def served(row: recorded.Record) -> list[dict[str, Any]]:
    """The recorded frames of the server; none for a handshake that was refused."""
    return row.get("frames_from_server") or []


def closed(frame: Frame) -> bytes:
    assert isinstance(frame.payload, tuple)
    return int(frame.payload[0]).to_bytes(2, "big") + frame.payload[1].encode()


def texts(row: recorded.Record) -> list[tuple[float, str]]:
    return [(each["t"], each["payload"]) for each in served(row) if each["opcode"] == Opcode.TEXT]


def by_pod(frames: list[str]) -> dict[str, list[str]]:
    """The frames of each pod in their order: those of different pods come in any order."""
    found: dict[str, list[str]] = {}
    for text in frames:
        found.setdefault(json.loads(text)["name"], []).append(text)
    return found


@pytest.mark.parametrize("row", replayed("logs"))
async def test_a_recorded_log_stream_is_played_again(world: World, row: recorded.Record) -> None:
    first = [json.loads(text) for t, text in texts(row) if t < 0.5]
    later = [json.loads(text) for t, text in texts(row) if t >= 0.5]
    for line in first:
        world.pods.log_of(line["name"]).write(line["message"].encode())
    if "without log source" in row["name"]:
        world.cluster.put(pod_object(namespace_of(row), "site-1", "site"))
        world.pods.refuse = lambda _: ClusterError("https://fake", "no log source", status=500)
    async with connect(world, row) as client:
        same_answer(client, row)
        found = await client.texts(len(first))
        for line in later:
            world.pods.log_of(line["name"]).write(line["message"].encode())
            found += await client.texts(1)
        assert by_pod(found) == by_pod([text for _, text in texts(row)])
        for frame in row.get("frames_from_client") or ():
            client.send(Opcode(frame["opcode"]), payload(frame))
        await same_end(client, row)


def namespace_of(row: recorded.Record) -> str:
    return namespace_name(recorded.lease_of(recorded.issuer(row), int(row["request"]["path"].split("/")[2])))


@pytest.mark.parametrize("row", replayed("kubeevents"))
async def test_a_recorded_event_stream_is_played_again(world: World, row: recorded.Record) -> None:
    found = texts(row)
    for number, (_, text) in enumerate(found):
        document = json.loads(text)
        regarding, parts = document.pop("object"), {"apiVersion": EVENT.api_version, "kind": EVENT.kind}
        metadata = {"name": f"{number:03}", "namespace": _SPACE}
        world.cluster.put({**parts, "metadata": metadata, **document, "regarding": regarding})
    async with connect(world, row) as client:
        same_answer(client, row)
        assert await client.texts(len(found)) == [text for _, text in found]
        await same_end(client, row)


@pytest.mark.parametrize("row", replayed("shell"))
async def test_a_recorded_shell_is_played_again(world: World, row: recorded.Record) -> None:
    server = [each for each in served(row) if each["opcode"] == Opcode.BINARY]
    client_frames = row.get("frames_from_client") or ()

    async def play(_: Command, execution: FakeExecution) -> None:
        read = 0
        for each in sorted([*server, *client_frames], key=lambda each: each["t"]):
            data = payload(each)
            if each in server and data[0] != _RESULT:
                execution.say(data[1:], Channel.STDERR if data[0] == _STDERR else Channel.STDOUT)
            elif each in server:
                result = json.loads(data[1:])
                message = result.get("message", "")
                execution.finish(
                    {"status": "Failure", "message": _MISSING} if message else exit_status(result["exit_code"])
                )
            elif each["opcode"] == Opcode.BINARY and data[:1] == b"h" and "=1&podIndex" in row["request"]["path"]:
                read += len(data) - 1
                await execution.has_read(read)
        await asyncio.Event().wait()

    world.pods.play = play
    async with connect(world, row) as client:
        same_answer(client, row)
        for frame in client_frames:
            if frame["opcode"] != Opcode.CLOSE:
                client.send(Opcode(frame["opcode"]), payload(frame))
        found = await client.frames(len(server))
        assert [each.payload for each in found] == [payload(each) for each in server]
        for frame in client_frames:
            if frame["opcode"] == Opcode.CLOSE:
                client.send(Opcode(frame["opcode"]), payload(frame))
        await same_end(client, row)
