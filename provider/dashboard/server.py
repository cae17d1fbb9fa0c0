"""The listener of the dashboard: its routes, its events, and its start beside the provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from provider.bus import INVENTORY_CHANGED
from provider.dashboard.access import guard, link_file, token_of
from provider.dashboard.pages import page
from provider.dashboard.views import Sources, Views
from provider.errors import ProviderError, StoreError
from provider.funds.watch import FUNDS_WALLET
from provider.lifecycle.state import LEASE_STATE, STACK_RESULT

__all__ = ["dashboard_app", "serve_dashboard"]

_TOPICS = (LEASE_STATE, STACK_RESULT, INVENTORY_CHANGED, FUNDS_WALLET)
_PAUSE_S = 1.0
"""Between two events of one stream: a burst of changes is one event."""
_SILENT_S = 20.0
"""A stream says something that often, so that proxies and browsers keep it."""
_STREAMS = 16
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_View = Callable[[web.Request], Awaitable[dict[str, Any]]]
_log = structlog.get_logger(__name__)


def dashboard_app(sources: Sources, *, token: str, host: str) -> web.Application:
    """The application. `host`: the host of its listener."""
    views = Views(sources)
    app = web.Application(middlewares=[guard(token, host=host)], client_max_size=1024)
    shown: Mapping[str, tuple[str, _View]] = {
        "/": ("now", lambda _: views.now()),
        "/leases": ("leases", lambda request: views.leases(closed=request.query.get("closed") == "1")),
        r"/leases/{name:[a-z0-9-]{1,63}}": ("lease", lambda request: views.lease(request.match_info["name"])),
        "/orders": ("orders", lambda _: views.orders()),
        r"/orders/{number:\d{1,18}}": ("order", lambda request: views.order(int(request.match_info["number"]))),
        "/inventory": ("inventory", lambda _: views.inventory()),
        "/addresses": ("addresses", lambda _: views.addresses()),
        "/money": ("money", lambda _: views.money()),
        "/policies": ("policies", lambda _: views.policies()),
    }
    for path, (name, view) in shown.items():
        app.router.add_get(path, partial(_answer, sources, name, view))
    app.router.add_get("/events", _Events(sources).stream)
    for file in files("provider.dashboard").joinpath("static").iterdir():
        kind = _TYPES[Path(file.name).suffix]
        app.router.add_get(f"/static/{file.name}", partial(_static, file.read_bytes(), kind))
    return app


async def _static(body: bytes, kind: str, _request: web.Request) -> web.StreamResponse:
    return web.Response(body=body, content_type=kind, charset="utf-8")


async def _answer(sources: Sources, name: str, view: _View, request: web.Request) -> web.StreamResponse:
    """A page. What cannot be read is a page too, with the reason."""
    status, base = 200, {"here": f"/{request.path.split('/')[1]}", "now": sources.clock.now()}
    try:
        context = await view(request)
    except StoreError as error:
        status, name, context = 404, "problem", {"heading": "Not here", "problem": str(error)}
    except ProviderError as error:
        status, name, context = 503, "problem", {"heading": "Not now", "problem": str(error)}
    text = await asyncio.to_thread(page, f"{name}.html", base | context)
    return web.Response(status=status, text=text, content_type="text/html")


class _Events:
    """Server-sent events: one `changed` for what happened since the last one. A client asks for its page again."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._open = 0

    async def stream(self, request: web.Request) -> web.StreamResponse:
        if self._open >= _STREAMS:
            return web.Response(status=503, headers={"Retry-After": "10"}, text="too many dashboards are open\n")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        self._open += 1  # before the first pause: others ask meanwhile
        try:
            await answer.prepare(request)
            await self._write(answer)
        except ConnectionError:
            pass
        finally:
            self._open -= 1
        return answer

    async def _write(self, answer: web.StreamResponse) -> None:
        await answer.write(b"retry: 3000\n\n")
        async with self._sources.bus.subscribe(*_TOPICS) as values:
            changes = aiter(values)
            while True:
                try:
                    async with asyncio.timeout(_SILENT_S):
                        await anext(changes)
                except TimeoutError:
                    await answer.write(b": nothing new\n\n")
                    continue
                await answer.write(b"event: changed\ndata: \n\n")
                await asyncio.sleep(_PAUSE_S)


async def serve_dashboard(sources: Sources, *, listen: str, home: Path) -> None:
    """Serve at `listen` (`host:port`) until cancelled, and write the link to the home. A port that is taken is replaced
    by a free one, since leases do not depend on a dashboard. Raises `SettingsError` for a token that cannot be read.
    """
    host, _, port = listen.rpartition(":")
    host, token = host.strip("[]"), token_of(home)
    runner = web.AppRunner(dashboard_app(sources, token=token, host=host), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    link = link_file(home)
    try:
        await _listen(runner, host, int(port))
        address = runner.addresses[0]
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        link.touch(mode=0o600)
        link.chmod(0o600)
        link.write_text(f"http://{name}:{address[1]}/?token={token}\n")
        _log.info(
            "dashboard.listening", address=f"http://{name}:{address[1]}/", remedy="`lessor dashboard` prints the link"
        )
        await asyncio.Event().wait()
    except OSError as error:
        _log.error("dashboard.not_listening", address=listen, problem=str(error), setting="LESSOR_DASHBOARD_LISTEN")
    finally:
        link.unlink(missing_ok=True)
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host or None, port).start()
    except OSError as error:
        _log.warning("dashboard.port_taken", address=f"{host}:{port}", problem=str(error))
        await web.TCPSite(runner, host or None, 0).start()
