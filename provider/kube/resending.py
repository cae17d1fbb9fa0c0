"""Requests that the API server asks to send again: it has too much to do at the moment, and says when.

The Go client does the same, so a tenant of the Go provider does not notice such a moment.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from provider.kube.bodies import limited
from provider.kube.server import ApiServer, Request

__all__ = ["answered"]

_TRIES, _LONGEST_S, _DIGITS = 4, 5, 9
"""A request is sent so often, with pauses of so many seconds at most."""


async def answered(server: ApiServer, request: Request, *, until: float) -> tuple[int, bytes]:
    """Status and body of the answer. The request is sent again while it is to be, and while that is before `until`, a
    time of the loop. Raises `ClusterError` without an answer.
    """
    now = asyncio.get_running_loop().time
    for tries in range(1, _TRIES + 1):
        async with server.request(request) as response:
            chunks, most = response.content.iter_any(), request.most_bytes
            body = await (response.read() if most is None else limited(chunks, most))
        pause = _pause(response.status, response.headers.get("Retry-After", ""))
        if pause is None or tries == _TRIES or now() + pause >= until:
            break
        await asyncio.sleep(pause)
    return response.status, body


def _pause(status: int, retry_after: str) -> float | None:
    """Seconds after which a refused request is to be sent again; None for what is not to be, or not soon."""
    busy = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if not busy or not (retry_after.isascii() and retry_after.isdigit()) or len(retry_after) > _DIGITS:
        return None
    return float(retry_after) if int(retry_after) <= _LONGEST_S else None
