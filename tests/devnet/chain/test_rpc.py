"""CometBFT's RPC: recorded requests in every form get the recorded answers and errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from devnet.chain import SimulatedChain
from devnet.chain.genesis import recorded_genesis
from devnet.chain.node import Node
from devnet.chain.rpc import RpcServer
from tests.devnet.chain import signing
from tests.devnet.chain.recording import GENESIS, block_times, rows, tx_bytes

LAST = 221
"""The height at which the plain methods were recorded."""

OTHER_NODE = {"node_version", "app_hash", "gas_used", "finalize_block_events", "proof"}
OTHER_HASHES = (
    "block",
    "header",
    "commit",
    "status",
    "validators",
    "net_info",
    "abci_info",
    "consensus_params",
    "tx prove",
    "abci_query store",
    "abci_query app",
    "abci_query prove",
    "params as array",
)
"""Notes whose answers hold hashes, proofs or another machine's facts."""


@pytest.fixture
async def replayed() -> AsyncIterator[RpcServer]:
    node = Node(recorded_genesis(GENESIS))
    for height, time_ns in block_times().items():
        if height <= LAST:
            node.replay(height, time_ns, tx_bytes(height))
    server = RpcServer(node)
    await server.start("127.0.0.1", 0)
    yield server
    await server.stop()


async def test_recorded_requests_get_the_recorded_answers(replayed: RpcServer) -> None:
    compared, wrong = 0, []
    async with aiohttp.ClientSession(f"http://127.0.0.1:{replayed.port}") as session:
        for row in _forms():
            status, body = await _ask(session, row)
            if (status, _plain(body)) == (row["status"], _plain(row["response"])):
                compared += 1
            else:
                wrong.append((row["note"], row["response"], status, str(body)[:300]))
    assert not wrong
    assert compared == 47


def _forms() -> list[dict[str, Any]]:
    found = [row for row in rows("rpc.jsonl") if row["after_height"] == LAST and "response" in row]
    return [row for row in found if not _not_comparable(row)]


def _not_comparable(row: dict[str, Any]) -> bool:
    note, text = row["note"], json.dumps(row["response"])
    if (
        note.startswith("invalid JSON")
        or note.startswith("GET tx_search unquoted")
        or ("tx_search" in note and "error" in text)
    ):
        return True  # the parser's own words
    if note.startswith(("GET bad height", "GET tx no 0x", "tx_search")):
        return True
    names_hashes = note.removeprefix("GET ").startswith(OTHER_HASHES) or note == "unknown param name"
    return names_hashes and "error" not in text


async def _ask(session: aiohttp.ClientSession, row: dict[str, Any]) -> tuple[int, Any]:
    if row["http"] == "GET":
        async with session.get(row["path"]) as response:
            return response.status, json.loads(await response.text())
    async with session.post("/", json=row["request"]) as response:
        return response.status, json.loads(await response.text())


def _plain(body: Any) -> Any:
    if isinstance(body, list):
        return [_plain(item) for item in body]
    if not isinstance(body, dict):
        return body
    return {key: _plain(value) for key, value in body.items() if key not in OTHER_NODE}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{nope", 500),
        (b"[" * 100_000, 500),
        (b'"text"', 200),
        (b"[1, null, []]", 200),
        (b'{"jsonrpc":"2.0","id":1,"method":{"a":1}}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"block","params":"x"}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":{}}}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"99999999999999999999999"}}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":1,"data":[]}}', 200),
        (b'{"jsonrpc":"2.0","id":1,"method":"tx_search","params":{"query":"tx.height>","per_page":"-1"}}', 200),
        (b" " * 1_000_001, 400),
        (b"\xff\xfe", 500),
    ],
)
async def test_an_invalid_request_gets_an_error_and_the_node_continues(body: bytes, status: int) -> None:
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession(chain.rpc_address) as session:
        async with session.post("/", data=body) as response:
            assert response.status == status
            assert "result" not in await response.text()
        async with session.get("/health") as response:
            assert (await response.json())["result"] == {}


async def test_a_transaction_goes_from_broadcast_to_block_results() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain, aiohttp.ClientSession(chain.rpc_address) as session:
        tx = signing.signed(chain.node, [signing.create_deployment(7)], role="tenant")
        async with session.get(f"/broadcast_tx_sync?tx=0x{tx.hex()}") as response:
            assert (await response.json())["result"]["code"] == 0
        await chain.produce()
        async with session.get("/block_results?height=2") as response:
            results = (await response.json())["result"]["txs_results"]
    names = [event["type"] for event in results[0]["events"]]
    assert results[0]["code"] == 0
    assert "akash.market.v1.EventOrderCreated" in names


async def test_commit_waits_for_the_block() -> None:
    async with SimulatedChain.start(block_seconds=0.1) as chain, aiohttp.ClientSession(chain.rpc_address) as session:
        tx = signing.signed(chain.node, [signing.send(1)], role="tenant")
        async with session.get(f"/broadcast_tx_commit?tx=0x{tx.hex()}") as response:
            result = (await response.json())["result"]
    assert result["tx_result"]["code"] == 0
    assert int(result["height"]) > 1
