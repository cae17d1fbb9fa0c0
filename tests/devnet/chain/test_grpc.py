"""The gRPC port: recorded calls, with gRPC's own statuses and details."""

from __future__ import annotations

import base64
import re
from typing import Any

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
import grpc
from cosmos.tx.v1beta1 import service_pb2 as txs
from grpc import aio

from devnet.chain import SimulatedChain
from devnet.chain.genesis import recorded_genesis
from devnet.chain.grpc_server import GrpcServer
from devnet.chain.node import Node
from tests.devnet.chain.recording import GENESIS, block_times, rows, tx_bytes

LAST = 230
GAS_TEXT = re.compile(r"gas used: '\d+'")
LEFT_OUT = {
    "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo": "another node",
    "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock": "other hashes",
    "/akash.discovery.v1.Discovery/GetInfo": "another version",
}


async def test_recorded_calls_get_the_recorded_answers() -> None:
    node = Node(recorded_genesis(GENESIS))
    for height, time_ns in block_times().items():
        if height <= LAST:
            node.replay(height, time_ns, tx_bytes(height))
    server, compared, wrong = GrpcServer(node), 0, []
    await server.start("127.0.0.1", 0)
    async with aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for row in rows("grpc.jsonl"):
            if row["path"] in LEFT_OUT:
                continue
            got, wanted = _plain(row["path"], await _call(channel, row)), _plain(row["path"], _recorded(row))
            compared += got == wanted
            wrong += [(row["path"], wanted, got)] if got != wanted else []
    await server.stop()
    assert not wrong
    assert compared == 41


Answer = tuple[str, str, bytes, dict[str, str]]


async def _call(channel: aio.Channel, row: dict[str, Any]) -> Answer:
    metadata = tuple(row["metadata"].items())
    call = channel.unary_unary(row["path"])(bytes.fromhex(row["request"]), metadata=metadata, timeout=5)  # type: ignore[call-arg]
    try:
        reply = await call
    except aio.AioRpcError as error:
        return error.code().name, error.details() or "", b"", {}
    given = {key: value for key, value in await call.initial_metadata() if key.startswith("x-cosmos")}
    return "OK", "", reply, given  # type: ignore[return-value]


def _recorded(row: dict[str, Any]) -> Answer:
    reply = base64.b64decode(row.get("response", ""))
    return row["status"], row.get("details", ""), reply, row.get("initial_metadata") or {}


def _plain(path: str, answer: Answer) -> tuple[Any, ...]:
    """Without gas; a broadcast is not served by `abci_query`, so its height of state is no concern here."""
    status, details, reply, metadata = answer
    if path.endswith("Service/Simulate") and reply:
        message = txs.SimulateResponse.FromString(reply)
        message.gas_info.gas_used = 0
        reply = message.SerializeToString(deterministic=True)
    return status, GAS_TEXT.sub("", details), reply, {} if path.endswith("BroadcastTx") else metadata


async def test_an_unknown_method_is_unimplemented_and_garbage_is_refused() -> None:
    async with (
        SimulatedChain.start(block_seconds=None) as chain,
        aio.insecure_channel(chain.grpc_address) as channel,
    ):
        codes = []
        for path in ("/akash.market.v1beta4.Query/Orders", "/akash.market.v1beta5.Query/Orders"):
            try:
                await channel.unary_unary(path)(b"\xff\xff\xff", timeout=5)  # type: ignore[call-arg]
            except aio.AioRpcError as error:
                codes.append(error.code())
    assert codes[0] == grpc.StatusCode.UNIMPLEMENTED
    assert codes[1] == grpc.StatusCode.INTERNAL
