"""A tenant's streams at a world's gateway: logs, events and shells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from devnet.tenant.token import full_access, sign_token
from devnet.world import World
from tests.whole.conftest import Rented

__all__ = ["messages", "opened"]

_PING_S = 15.0
"""Stock clients leave a stream that was silent for so long."""


@asynccontextmanager
async def opened(world: World, rented: Rented, path: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """The stream at `/lease/…/<path>` of the first lease."""
    gateway = await world.tenant.gateway(world.provider)
    await gateway.lease_status(rented.lease.dseq)  # pins the certificate
    account = world.tenant.account
    headers = {"Authorization": f"Bearer {sign_token(account.key, full_access(account.address))}"}
    address = f"{gateway._uri}/lease/{rented.lease.dseq}/1/1/{path}"
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(address, headers=headers, ssl=gateway._tls or True, autoping=False)
        try:
            yield socket
        finally:
            await socket.close()


async def messages(
    socket: aiohttp.ClientWebSocketResponse, *, close_code: int | None = None
) -> AsyncIterator[dict[str, str]]:
    """The documents of a stream. A silence that a stock client does not bear raises TimeoutError. `close_code`: what
    the close frame must say; the client's own `close_code` is another when the gateway is gone before its reply.
    """
    while True:
        message = await socket.receive(timeout=_PING_S)
        if message.type is aiohttp.WSMsgType.TEXT:
            yield json.loads(message.data)
        elif message.type is not aiohttp.WSMsgType.PING:
            assert close_code is None or (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, close_code), message
            return
