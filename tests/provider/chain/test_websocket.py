"""The websocket announces blocks; when it lies, hangs, breaks or falls silent, blocks come by polling, and it is
replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from devnet.chain import SimulatedChain
from provider.chain.pace import Pace
from provider.chain.websocket import Header, header_of
from provider.protocols.chain import Block
from tests.provider.chain.proxy import proxy_before
from tests.provider.chain.world import client, status
from tests.world.patience import PATIENCE_S

Speak = Callable[[web.WebSocketResponse, web.Request], Awaitable[None]]


def frame(height: int, *, chain_id: str = "local") -> dict[str, Any]:
    header = {"chain_id": chain_id, "height": str(height), "time": f"2026-11-27T23:04:{height % 60:02}.5Z"}
    return {"jsonrpc": "2.0", "id": "lessor", "result": {"data": {"value": {"header": header}}}}


class TalkingNode:
    """A chain of empty blocks, `height` high, whose websocket is played by `speak`."""

    def __init__(self, speak: Speak, height: int = 1000) -> None:
        self.speak, self.height, self.sockets = speak, height, 0

    async def post(self, request: web.Request) -> web.Response:
        body = await request.json()
        asked = int(body["params"].get("height", 0))
        if asked > self.height:
            text = f"height {asked} must be less than or equal to the current blockchain height {self.height}"
            return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32603, "data": text}})
        result = {"height": str(asked), "txs_results": None} if asked else status(self.height)
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": result})

    async def listen(self, request: web.Request) -> web.WebSocketResponse:
        self.sockets += 1
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await self.speak(socket, request)
        return socket


@asynccontextmanager
async def talking(speak: Speak) -> AsyncIterator[tuple[str, TalkingNode]]:
    node, app = TalkingNode(speak), web.Application()
    app.router.add_post("/", node.post)
    app.router.add_get("/websocket", node.listen)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", node
    finally:
        await runner.cleanup()


async def next_heights(blocks: AsyncIterator[Block], count: int, *, seconds: float = PATIENCE_S) -> list[int]:
    async with asyncio.timeout(seconds):
        return [(await anext(blocks)).height for _ in range(count)]


async def silence(socket: web.WebSocketResponse, request: web.Request) -> None:
    async for _ in socket:
        pass


def sends(*texts: str | bytes) -> Speak:
    async def speak(socket: web.WebSocketResponse, request: web.Request) -> None:
        for text in texts:
            await (socket.send_str(text) if isinstance(text, str) else socket.send_bytes(text))
        await silence(socket, request)

    return speak


def writes(raw: bytes, *, then_cut: bool = False) -> Speak:
    async def speak(socket: web.WebSocketResponse, request: web.Request) -> None:
        assert request.transport is not None
        request.transport.write(raw)
        if then_cut:
            request.transport.abort()
        await silence(socket, request)

    return speak


@pytest.mark.parametrize(
    "speak",
    [
        sends("{"),
        sends("[]"),
        sends("[" * 100_000),
        sends(b"\x00\xff"),
        sends(json.dumps({"id": "lessor", "error": {"code": -32603, "data": "subscription was canceled"}})),
        sends(json.dumps(frame(10**18))),
        sends(json.dumps(frame(7))),
        sends(json.dumps(frame(1001, chain_id="other"))),
        sends(*[json.dumps(frame(1001))] * 500),
        sends('{"result":{"data":{"value":{"header":{"height":"x","chain_id":"local","time":"y"}}}}}'),
        writes(b"\x81\x7e\xff", then_cut=True),
        writes(b"\x81\x7e\xff\xff{"),
        writes(b"\x8f\x00\x00\x00"),
        writes(b"\x81\x7f" + b"\x7f" * 8),
        writes(b"HTTP/1.1 200 OK\r\n\r\n", then_cut=True),
    ],
    ids=[
        "half an object", "a list", "without end", "bytes", "subscription ended", "a height beyond", "an old height",
        "another chain", "one block 500 times", "a header of nonsense", "cut in a frame", "a frame that never ends",
        "reserved bits", "a frame of exabytes", "no websocket at all",
    ],
)  # fmt: skip
async def test_whatever_the_websocket_sends_blocks_come_once_and_in_order(speak: Speak) -> None:
    async with (
        talking(speak) as (address, node),
        client(address, poll_interval=0.02) as chain,
        aclosing(chain.follow(after=999)) as blocks,  # type: ignore[type-var]
    ):
        assert await next_heights(blocks, 1) == [1000]
        await asyncio.sleep(0.05)
        node.height = 1003
        assert await next_heights(blocks, 3) == [1001, 1002, 1003]


async def test_a_header_that_comes_too_early_skips_nothing_and_makes_no_gap() -> None:
    """The node announces a block that it does not have yet: the request is refused and repeated."""
    async with (
        talking(sends(json.dumps(frame(1001)))) as (address, node),
        client(address, poll_interval=0.5) as chain,
        aclosing(chain.follow(after=999)) as blocks,  # type: ignore[type-var]
        asyncio.timeout(15),
    ):
        found = [await anext(blocks)]
        later = asyncio.ensure_future(anext(blocks))
        await asyncio.sleep(0.3)
        assert not later.done()
        node.height = 1002
        found += [await later, await anext(blocks)]
    assert [(block.height, block.missed_from) for block in found] == [(1000, 0), (1001, 0), (1002, 0)]


async def test_a_socket_that_missed_three_blocks_is_replaced() -> None:
    """The node answers pings and announces nothing: it forgot the subscription."""
    async with (
        talking(silence) as (address, node),
        client(address, poll_interval=0.05) as chain,
        aclosing(chain.follow(after=999)) as blocks,  # type: ignore[type-var]
    ):
        chain._rpc.pace.seconds = 0.2
        await next_heights(blocks, 1)
        async with asyncio.timeout(10):
            while node.sockets < 2:
                node.height += 1
                await next_heights(blocks, 1)
                await asyncio.sleep(0.1)


async def test_a_half_open_socket_is_detected_and_no_block_is_late_by_more_than_the_poll() -> None:
    """Old connections hang for ever, new ones work, as behind a firewall that lost its table."""
    async with (
        SimulatedChain.start(block_seconds=0.25) as node,
        proxy_before(node.rpc_address) as (address, proxy),
        client(address, poll_interval=0.1, rpc_timeout=2) as chain,
        aclosing(chain.follow(after=node.height)) as blocks,  # type: ignore[type-var]
    ):
        before = await next_heights(blocks, 3)
        proxy.freeze()
        frozen = node.height
        after = await next_heights(blocks, 8)
        while proxy.websockets < 2:
            after += await next_heights(blocks, 1)
        assert node.height - frozen < 32, "eight seconds of the node's blocks"
    assert before + after == list(range(before[0], before[0] + 3 + len(after)))


async def test_a_node_with_only_half_open_connections_is_replaced_by_another() -> None:
    """After the time of three blocks, but no less than two seconds, the other node is used."""
    async with (
        SimulatedChain.start(block_seconds=0.25) as node,
        proxy_before(node.rpc_address) as (hanging, proxy),
        proxy_before(node.rpc_address) as (well, _),
        client(f"{hanging},{well}", poll_interval=0.1, rpc_timeout=3600) as chain,
        aclosing(chain.follow(after=node.height)) as blocks,  # type: ignore[type-var]
    ):
        before = await next_heights(blocks, 6)
        proxy.freeze()
        proxy.frozen = True
        after = await next_heights(blocks, 4)
        assert chain.address == well
    assert before + after == list(range(before[0], before[0] + 10))


def test_every_recorded_frame_is_read_and_headers_are_what_the_node_announced(recorded: Any) -> None:
    found, errors = [], 0
    for row in recorded("websocket.jsonl"):
        if row["dir"] != "recv":
            continue
        try:
            header = header_of(json.dumps(row["frame"]))
        except ValueError as error:
            assert "the node ended the subscription" in str(error)
            errors += 1
            continue
        if row["frame"].get("result", {}).get("data", {}).get("type") == "tendermint/event/NewBlockHeader":
            assert header is not None
            found.append((row["conn"], header.height, header.chain_id))
    heights = [height for conn, height, _ in found if conn == "a"]
    assert len(heights) >= 5
    assert heights == sorted(set(heights))
    assert {chain_id for _, _, chain_id in found} == {"local"}
    assert errors >= 2


def test_the_pace_is_learned_from_recorded_times(recorded: Any) -> None:
    pace = Pace()
    for row in recorded("websocket.jsonl"):
        if row["dir"] == "recv" and "error" not in row["frame"]:
            header = header_of(json.dumps(row["frame"]))
            if header is not None:
                pace.observe(header.height, header.time)
    assert 0.2 < pace.seconds < 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"jsonrpc":"2.0","id":"lessor","result":{}}', None),
        ('{"result":null}', None),
        ('{"result":{"data":{"value":{}}}}', None),
        (json.dumps(frame(5)), Header("local", 5, 1795820645.5)),
    ],
)
def test_a_frame_without_a_header_announces_nothing(text: str, expected: Header | None) -> None:
    assert header_of(text) == expected


@pytest.mark.parametrize(
    ("blocks", "low", "high"),
    [
        ([], 6, 6),
        ([(1, 0.0)], 6, 6),
        ([(height, height * 1.0) for height in range(1, 40)], 0.99, 1.1),
        ([(height, height * 1e-9) for height in range(1, 40)], 0.04, 0.2),
        ([(height, height * 1e9) for height in range(1, 40)], 25, 30),
        ([(5, 10.0), (4, 11.0), (5, 12.0), (6, 9.0)], 6, 6),
    ],
)
def test_the_pace_follows_the_chain_within_limits_and_is_never_silent_too_soon(
    blocks: list[tuple[int, float]], low: float, high: float
) -> None:
    pace = Pace()
    for height, at in blocks:
        pace.observe(height, at)
    assert low <= pace.seconds <= high
    assert pace.silence >= max(2, 3 * pace.seconds)
