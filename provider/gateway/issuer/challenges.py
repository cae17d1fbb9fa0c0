"""The listener that answers a CA's challenges over plain HTTP. It is open while an order is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from provider.gateway.issuer.errors import NotIssued

__all__ = ["challenge_listener"]


@asynccontextmanager
async def challenge_listener(listen: str, answers: Mapping[str, str]) -> AsyncIterator[None]:
    """Serve `answers` (path → text) at `listen`; every other path is 404. Raises `NotIssued` for an address that is not
    available.
    """
    from aiohttp import web  # noqa: PLC0415  a tenth of a second, needed once in weeks

    async def answer(request: web.Request) -> web.Response:
        text = answers.get(request.path)
        return web.Response(text=text) if text is not None else web.Response(status=404)

    app = web.Application(client_max_size=1024)
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    host, _, port = listen.rpartition(":")
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    except OSError as error:
        await runner.cleanup()
        raise NotIssued(
            f"AP_CERT_ISSUER_HTTP_CHALLENGE_PORT={listen}: {error.strerror or error}",
            "set a free address of this machine; a port below 1024 needs the right CAP_NET_BIND_SERVICE",
        ) from error
    try:
        yield
    finally:
        await runner.cleanup()
