"""The hardware server: one node's hardware over HTTP, GET only (operators.md §2.4).

It runs in a discovery pod, answers the inventory operator through the API server's proxy, and needs no right in the
cluster.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from aiohttp import web

from provider.operators.hardware.report import KINDS, node_report, report, whole_report
from provider.operators.hardware.tree import Tree

__all__ = ["hardware_app", "serve_hardware"]

_log = structlog.get_logger(__name__)
_JSON = {"Content-Type": "application/json; charset=UTF-8"}


def hardware_app(tree: Tree) -> web.Application:
    """The paths `/`, `/node` and one for each kind; any other method than GET is answered 405, any other path 404."""
    app = web.Application()
    app.router.add_get("/", _answer(partial(whole_report, tree)), allow_head=False)
    app.router.add_get("/node", _answer(partial(node_report, tree)), allow_head=False)
    for kind in KINDS:
        app.router.add_get(f"/{kind}", _answer(partial(report, kind, tree)), allow_head=False)
    return app


def _answer(read: Callable[[], dict[str, Any]]) -> Callable[[web.Request], Any]:
    async def answer(_: web.Request) -> web.Response:
        try:
            found = await asyncio.to_thread(read)
        except (OSError, ValueError) as error:
            _log.warning("hardware.unreadable", problem=str(error))
            return web.Response(status=500, text=str(error))
        return web.Response(body=json.dumps(found).encode(), headers=_JSON)

    return answer


async def serve_hardware(tree: Tree, *, host: str, port: int) -> None:
    """Serve until cancelled. Raises OSError if the address cannot be bound."""
    runner = web.AppRunner(hardware_app(tree), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        _log.info("hardware.listening", address=f"{host}:{port}", root=str(tree.root))
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
