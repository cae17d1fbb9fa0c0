"""CometBFT's RPC over HTTP: JSON-RPC POST (batches of ten at most), GET with the method as path, `/websocket`."""

from __future__ import annotations

import json
import math
from typing import Any

from aiohttp import web

from devnet.chain.node import Node
from devnet.chain.rpc_methods import METHODS_BY_NAME
from devnet.chain.rpc_params import RpcError, from_json, from_url
from devnet.chain.websocket import SUBSCRIPTION_METHODS, Hub

__all__ = ["RpcServer"]

_BODY_LIMIT = 1_000_000
_BATCH_LIMIT = 10
_NO_METHOD = -32601


class RpcServer:
    """Listens on one port until `stop`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.hub = Hub(node, self.call)
        self._app = web.Application(client_max_size=2 * _BODY_LIMIT, middlewares=[self._misbehave])
        self._app.router.add_post("/", self._post)
        self._app.router.add_get("/websocket", self._websocket)
        self._app.router.add_get("/{method:.*}", self._get)
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=0.2)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self.hub.close()
        await self._runner.cleanup()

    @web.middleware
    async def _misbehave(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self._node.faults.refuse and request.transport is not None:
            request.transport.abort()
            return web.Response(status=503)
        await self._node.faults.before_answer()
        answered: web.StreamResponse = await handler(request)
        return answered

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(status=400, text="Bad Request\n")
        return await self.hub.serve(request)

    async def _post(self, request: web.Request) -> web.Response:
        body = await request.read()
        if len(body) > _BODY_LIMIT:
            text = "error reading request body: http: request body too large"
            return _reply({"jsonrpc": "2.0", "error": RpcError(text, code=-32600).json()}, status=400)
        if not body:
            return self._listing()
        try:
            question = json.loads(body)
        except (ValueError, RecursionError):
            error = {"code": -32700, "message": "Parse error. Invalid JSON", "data": "error unmarshaling request"}
            return _reply({"jsonrpc": "2.0", "error": error}, status=500)
        return await self._answer_post(question)

    async def _answer_post(self, question: Any) -> web.Response:
        if not isinstance(question, list):
            answered = await self.call(question)
            return _reply(answered) if answered is not None else web.Response()
        if len(question) > _BATCH_LIMIT:
            text = f"batch request exceeds maximum ({_BATCH_LIMIT}) allowed number of requests"
            return _reply({"jsonrpc": "2.0", "error": RpcError(text, code=-32600).json()})
        answers = [row for row in [await self.call(part) for part in question] if row is not None]
        return _reply(answers) if answers else web.Response()

    async def call(self, question: Any) -> dict[str, Any] | None:
        """The answer to one JSON-RPC request; None for a notification."""
        if not isinstance(question, dict):
            return {"jsonrpc": "2.0", "error": RpcError("expected an object", code=-32600).json()}
        if "id" not in question:
            return None
        envelope = {"jsonrpc": "2.0", "id": _identity(question["id"])}
        try:
            method = METHODS_BY_NAME.get(str(question.get("method", "")))
            if method is None:
                raise RpcError("", code=_NO_METHOD)
            params = from_json(method.params, question.get("params") or {})
            return {**envelope, "result": await method.handle(self._node, params)}
        except RpcError as error:
            return {**envelope, "error": error.json()}

    async def _get(self, request: web.Request) -> web.Response:
        name = request.match_info["method"]
        if not name:
            return self._listing()
        envelope = {"jsonrpc": "2.0", "id": -1}
        method = METHODS_BY_NAME.get(name)
        if method is None and name in SUBSCRIPTION_METHODS:
            return _reply({**envelope, "error": RpcError("", code=_NO_METHOD).json()}, status=404)
        if method is None:
            return web.Response(status=404, text="404 page not found\n")
        try:
            result = await method.handle(self._node, from_url(method.params, request.query))
        except RpcError as error:
            return _reply({**envelope, "error": error.json()}, status=500)
        return _reply({**envelope, "result": result})

    def _listing(self) -> web.Response:
        rows = "".join(f'<a href="/{name}">/{name}</a></br>' for name in METHODS_BY_NAME)
        return web.Response(
            content_type="text/html", text=f"<html><body><br>Available endpoints:<br>{rows}</body></html>"
        )


def _identity(value: Any) -> Any:
    """The id of a request; a fraction loses its decimals, as in Go's integer ids."""
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _reply(body: Any, *, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)
