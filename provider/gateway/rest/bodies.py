"""Request bodies: reading with a limit on size and time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from provider.gateway.errors import RequestError

__all__ = ["read_body"]


async def read_body(request: web.BaseRequest, *, limit: int, seconds: float) -> bytes:
    """The whole body. Raises `RequestError` 413 above `limit` bytes and 408 after `seconds`."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    await _continue(request)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError as error:
        raise RequestError(408, f"request body not received within {seconds:g} seconds") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise RequestError(400, "the connection closed before the end of the request body") from error
    return bytes(body)


def _too_large(limit: int) -> RequestError:
    return RequestError(413, f"request body larger than {limit} bytes")


async def _continue(request: web.BaseRequest) -> None:
    """Send 100 Continue: clients with `Expect` (curl above 1 MiB) wait for it before they send the body."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
