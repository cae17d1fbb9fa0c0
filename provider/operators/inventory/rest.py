"""The REST side of the inventory operator: paths and bodies of the Go provider's (operators.md §2.10), and two more.

`/v1/inventory` is the state of the cluster, `/v1/node?name=` of one node, `/v1/storage` its storage alone, which the
market reads often.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from provider.operators.inventory.documents import cluster_document, node_document, storage_document
from provider.operators.inventory.operator import InventoryOperator

__all__ = ["inventory_app"]

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]


def inventory_app(operator: InventoryOperator) -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/v1/inventory", _inventory(operator))
    app.router.add_get("/v1/node", _node(operator))
    app.router.add_get("/v1/storage", _storage(operator))
    for path in ("/metrics/health", "/health"):
        app.router.add_route("*", path, _probe(lambda: True))
    for path in ("/metrics/ready", "/ready"):
        app.router.add_route("*", path, _probe(lambda: operator.publication.state is not None))
    return app


def _inventory(operator: InventoryOperator) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        state = operator.publication.state
        return web.Response(status=500) if state is None else _document(cluster_document(state), request)

    return answer


def _node(operator: InventoryOperator) -> _Handler:
    """One node by name; a name may be missing if there is one node only."""

    async def answer(request: web.Request) -> web.Response:
        nodes = operator.publication.state.nodes if operator.publication.state else ()
        name = request.query.get("name")
        found = [node for node in nodes if name in (None, node.name)]
        return _document(node_document(found[0]), request) if len(found) == 1 else web.Response(status=404)

    return answer


def _storage(operator: InventoryOperator) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        state = operator.publication.state
        if state is None:
            return web.Response(status=500)
        return _document({"storage": [storage_document(one) for one in state.storage]}, request)

    return answer


def _probe(fine: Callable[[], bool]) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=400 if request.method != "GET" else 200 if fine() else 503)

    return answer


def _document(document: Any, request: web.Request) -> web.Response:
    text = json.dumps(document, indent=2 if "pretty" in request.query else None)
    return web.Response(text=text, content_type="application/json")
