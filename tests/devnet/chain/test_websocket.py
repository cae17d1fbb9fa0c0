"""Subscriptions: the recorded control frames, and blocks as they are made."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from devnet.chain import SimulatedChain
from tests.devnet.chain import signing
from tests.devnet.chain.recording import rows


async def _next(socket: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
    frame: dict[str, Any] = await socket.receive_json(timeout=5)
    return frame


async def _subscribe(socket: aiohttp.ClientWebSocketResponse, query: str, identity: Any = "s") -> dict[str, Any]:
    await socket.send_json({"jsonrpc": "2.0", "id": identity, "method": "subscribe", "params": {"query": query}})
    return await _next(socket)


async def test_recorded_control_frames_get_the_recorded_answers() -> None:
    frames = [row for row in rows("websocket.jsonl") if row["conn"] == "a" and isinstance(row["frame"], dict)]
    sent = [row["frame"] for row in frames if row["dir"] == "send"]
    answers = {
        row["frame"].get("id"): row["frame"]
        for row in frames
        if row["dir"] == "recv" and "data" not in str(row["frame"].get("result", {}))
    }
    own = [frame for frame in sent if "subscribe" in frame["method"] and frame["id"] in answers]
    assert len(own) > 8
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{chain.rpc_address}/websocket")
        for frame in own:
            await socket.send_json(frame)
            got = await _next(socket)
            if "operator" in str(answers[frame["id"]]):  # the parser's own words
                assert "failed to parse query" in got["error"]["data"]
            else:
                assert got == answers[frame["id"]]


async def test_a_header_comes_for_every_block_and_its_results_are_there_already() -> None:
    async with SimulatedChain.start(block_seconds=0.05) as chain, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{chain.rpc_address}/websocket")
        assert await _subscribe(socket, "tm.event='NewBlockHeader'") == {"jsonrpc": "2.0", "id": "s", "result": {}}
        heights = []
        for _ in range(5):
            data = (await _next(socket))["result"]["data"]
            assert data["type"] == "tendermint/event/NewBlockHeader"
            heights.append(int(data["value"]["header"]["height"]))
            async with session.get(f"{chain.rpc_address}/block_results?height={heights[-1]}") as response:
                assert response.status == 200
    assert heights == list(range(heights[0], heights[0] + 5))


async def test_only_subscribers_of_its_events_receive_a_transaction() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{chain.rpc_address}/websocket")
        await _subscribe(socket, "tm.event='Tx' AND akash.market.v1.EventOrderCreated.id EXISTS", "orders")
        chain.submit(signing.signed(chain.node, [signing.send(5, role="provider", to="tenant")], role="provider"))
        chain.submit(signing.signed(chain.node, [signing.create_deployment(3)], role="tenant"))
        await chain.produce()
        result = (await _next(socket))["result"]
    assert result["data"]["value"]["TxResult"]["index"] == 1
    assert "akash.market.v1.EventOrderCreated.id" in result["events"]


async def test_a_dropped_websocket_ends_without_a_close_frame() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{chain.rpc_address}/websocket")
        await _subscribe(socket, "tm.event='NewBlock'")
        assert await chain.drop_websockets() == 1
        message = await socket.receive(timeout=5)
    assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.ERROR)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"id":1,"method":"subscribe","params":7}', '{"method":"subscribe"}']
)
async def test_a_broken_frame_leaves_the_connection_usable(text: str) -> None:
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{chain.rpc_address}/websocket")
        await socket.send_str(text)
        await socket.send_json({"jsonrpc": "2.0", "id": "still", "method": "health", "params": {}})
        frames = [await _next(socket)]
        while frames[-1].get("id") != "still":
            frames.append(await _next(socket))
    assert frames[-1]["result"] == {}
