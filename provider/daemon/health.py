"""`/healthz` and `/readyz` for the kubelet, served from the first moment of the process on.

Liveness is the event loop itself: it answers while the chain or the API server is away, since a restart would not bring
them back. The provider is ready when it serves tenants.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from provider.errors import SettingsError

if TYPE_CHECKING:
    from aiohttp.web import TCPSite

__all__ = ["health_listener"]

_UNAVAILABLE = 503


@asynccontextmanager
async def health_listener(listen: str, ready: asyncio.Event) -> AsyncIterator[None]:
    """Serve both paths at `listen` (`host:port`, empty: nowhere). Raises `SettingsError` for an address that is not
    available.
    """
    if not listen:
        yield
        return
    from aiohttp import web  # noqa: PLC0415  a tenth of a second, and most processes do not serve it

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def is_ready(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if ready.is_set() else web.Response(text="starting\n", status=_UNAVAILABLE)

    app = web.Application(client_max_size=1024)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", is_ready)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await _start(web.TCPSite(runner, *_address(listen)), listen)
        yield
    finally:
        await runner.cleanup()


def _address(listen: str) -> tuple[str | None, int]:
    host, _, port = listen.rpartition(":")
    return host.strip("[]") or None, int(port)


async def _start(site: TCPSite, listen: str) -> None:
    try:
        await site.start()
    except OSError as error:
        raise SettingsError(
            f"LESSOR_HEALTH_LISTENER={listen}: {error.strerror or error}; set another address of this machine"
        ) from error
