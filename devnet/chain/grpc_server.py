"""The node's gRPC port: the same table of queries, with gRPC's errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from devnet.chain.errors import QueryRefused
from devnet.chain.node import Node
from devnet.chain.query import METHODS, Method, Transport, answer

__all__ = ["GrpcServer"]

_HEIGHT = "x-cosmos-block-height"
_RECEIVE_LIMIT = 10 << 20
_FUTURE_HEIGHT = (
    "codespace sdk code 26: invalid height: cannot query with height in the future; please provide a valid height"
)
_BAD_HEIGHT = (
    'codespace sdk code 18: invalid request: Baseapp.RegisterGRPCServer: invalid height header "x-cosmos-block-height"'
)


class GrpcServer:
    """Listens on one port until `stop`."""

    def __init__(self, node: Node) -> None:
        self._handler = _Handler(node)
        self._server: aio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = aio.server(
            handlers=[self._handler],
            options=[("grpc.max_receive_message_length", _RECEIVE_LIMIT), ("grpc.so_reuseport", 0)],
        )
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0.2)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # takes no argument at run time
    """Finds a method in the table; takes and returns bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = handler_call_details.method
        method = METHODS.get(path)
        served = method is not None and Transport.GRPC in method.transports
        behaviour = _behaviour(self._node, method) if method is not None and served else _unknown(path)
        return grpc.unary_unary_rpc_method_handler(behaviour)


def _unknown(path: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
    service, _, name = path.lstrip("/").partition("/")
    known = any(known.startswith(f"/{service}/") for known in METHODS)
    text = f"unknown method {name} for service {service}" if known else f"unknown service {service}"

    async def refuse(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
        return b""

    return refuse


def _behaviour(node: Node, method: Method) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def behave(request: bytes, context: Any) -> bytes:
        if node.faults.refuse:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "connection refused")
        await node.faults.before_answer()
        query = node.query(await _asked_height(node, context))
        try:
            reply = answer(query, method, request)
        except QueryRefused as refused:
            await context.abort(*refused.grpc())
            raise
        if Transport.ABCI in method.transports:
            await context.send_initial_metadata(tuple(query.extra().items()))
        return reply

    return behave


async def _asked_height(node: Node, context: Any) -> int:
    """The height in the request's metadata, 0 for the latest."""
    text = str(dict(context.invocation_metadata()).get(_HEIGHT, "0"))
    if not text.removeprefix("-").isdigit():
        reason = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        await context.abort(grpc.StatusCode.UNKNOWN, f"{_BAD_HEIGHT}: {reason}")
    height = int(text)
    if height < 0 or height > node.height:
        await context.abort(grpc.StatusCode.UNKNOWN, _FUTURE_HEIGHT)
    return height
