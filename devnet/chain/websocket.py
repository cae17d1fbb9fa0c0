"""`/websocket`: subscriptions to blocks and transactions, and every other method of the RPC (chain.md §9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from devnet.chain import event_query
from devnet.chain.blocks import Block, result_json
from devnet.chain.event_query import Condition
from devnet.chain.node import Node
from devnet.chain.rpc_methods import tx_values
from devnet.chain.rpc_params import RpcError

__all__ = ["SUBSCRIPTION_METHODS", "Hub"]

_MAX_SUBSCRIPTIONS = 5
_BUFFER = 200
_PING_S = 27.0


@dataclass(slots=True)
class _Client:
    socket: web.WebSocketResponse
    queue: asyncio.Queue[dict[str, Any]] = field(default_factory=lambda: asyncio.Queue(_BUFFER))
    subscriptions: dict[str, tuple[Any, Sequence[Condition]]] = field(default_factory=dict)


class Hub:
    """All websocket connections of the node."""

    def __init__(self, node: Node, call: Callable[[Any], Awaitable[dict[str, Any] | None]]) -> None:
        self._call = call
        self._clients: list[_Client] = []
        node.listeners.append(self._publish)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=_PING_S, max_msg_size=1 << 20)
        await socket.prepare(request)
        client = _Client(socket)
        self._clients.append(client)
        writer = asyncio.create_task(_write(client))
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    await self._receive(client, message.data)
        finally:
            writer.cancel()
            self._clients.remove(client)
        return socket

    async def drop(self) -> int:
        """Close every connection without a close frame; returns their number."""
        clients = list(self._clients)
        for client in clients:
            transport = client.socket._req.transport if client.socket._req else None
            if transport is not None:
                transport.abort()
        return len(clients)

    async def close(self) -> None:
        for client in list(self._clients):
            await client.socket.close(code=1001)

    async def _receive(self, client: _Client, text: str) -> None:
        try:
            question = json.loads(text)
        except (ValueError, RecursionError):
            error = {"code": -32700, "message": "Parse error. Invalid JSON", "data": "error unmarshaling request"}
            await client.queue.put({"jsonrpc": "2.0", "error": error})
            return
        method = question.get("method") if isinstance(question, dict) else None
        answered = _subscription(client, question) if method in SUBSCRIPTION_METHODS else await self._call(question)
        if answered is not None:
            await client.queue.put(answered)

    def _publish(self, block: Block) -> None:
        for kind, data, values in _happenings(block):
            for client in self._clients:
                _offer(client, kind, data, values)


def _subscription(client: _Client, question: dict[str, Any]) -> dict[str, Any]:
    envelope = {"jsonrpc": "2.0", "id": question.get("id")}
    params = question.get("params")
    query = params.get("query", "") if isinstance(params, dict) else ""
    try:
        SUBSCRIPTION_METHODS[question["method"]](client, question.get("id"), str(query))
    except RpcError as error:
        return {**envelope, "error": error.json()}
    return {**envelope, "result": {}}


def _subscribe(client: _Client, identity: Any, query: str) -> None:
    if len(client.subscriptions) >= _MAX_SUBSCRIPTIONS:
        raise RpcError(f"max_subscriptions_per_client {_MAX_SUBSCRIPTIONS} reached")
    conditions = event_query.parse(query)
    if query in client.subscriptions:
        raise RpcError("already subscribed")
    client.subscriptions[query] = (identity, conditions)


def _unsubscribe(client: _Client, identity: Any, query: str) -> None:
    if client.subscriptions.pop(query, None) is None:
        raise RpcError("subscription not found")


def _unsubscribe_all(client: _Client, identity: Any, query: str) -> None:
    if not client.subscriptions:
        raise RpcError("subscription not found")
    client.subscriptions.clear()


SUBSCRIPTION_METHODS: dict[str, Callable[[_Client, Any, str], None]] = {
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "unsubscribe_all": _unsubscribe_all,
}


def _happenings(block: Block) -> Iterator[tuple[str, dict[str, Any], dict[str, list[str]]]]:
    """(event name, value, composite keys) of every event of a block, in the node's order."""
    yield "NewBlock", {"block": block.json(), "block_id": block.id_json()}, {"tm.event": ["NewBlock"]}
    yield "NewBlockHeader", {"header": block.header_json()}, {"tm.event": ["NewBlockHeader"]}
    for index, (tx, result) in enumerate(zip(block.txs, block.results, strict=True)):
        encoded = block.json()["data"]["txs"][index]
        body = {"height": str(block.height), "index": index, "tx": encoded, "result": _set(result_json(result))}
        yield "Tx", {"TxResult": _set(body)}, tx_values(block.height, tx, result)


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove zero and empty values, as protobuf's JSON does."""
    return {name: value for name, value in fields.items() if value}


def _offer(client: _Client, kind: str, value: dict[str, Any], values: dict[str, list[str]]) -> None:
    for query, (identity, conditions) in client.subscriptions.items():
        if event_query.matches(conditions, values):
            data = {"type": f"tendermint/event/{kind}", "value": value}
            result = {"query": query, "data": data, "events": values}
            _enqueue(client, {"jsonrpc": "2.0", "id": identity, "result": result})


def _enqueue(client: _Client, frame: dict[str, Any]) -> None:
    """Send an event; a client that reads too slowly loses events, as on a real node."""
    if not client.queue.full():
        client.queue.put_nowait(frame)


async def _write(client: _Client) -> None:
    while True:
        frame = await client.queue.get()
        if client.socket.closed:
            return
        try:
            await client.socket.send_json(frame)
        except ConnectionError:
            return
