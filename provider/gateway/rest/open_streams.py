"""The streams that are open: so many in all, so many of one tenant, and their end when the gateway stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import structlog
from aiohttp import web
from wsproto.frame_protocol import CloseReason

from provider.errors import ClusterError
from provider.gateway.config import StreamLimits
from provider.gateway.errors import RequestError
from provider.gateway.refusals import Refusals
from provider.gateway.rest.routes import Call
from provider.gateway.rest.websocket import PeerLeft, Receive, Upgraded, WebSocket, accept, handshake_problem
from provider.metrics import GATEWAY_STREAMS

__all__ = ["CLUSTER_AWAY", "INTERNAL", "NO_CLOSE_FRAME", "NO_LEASE", "OpenStreams", "Talk", "close_code"]

INTERNAL, NO_LEASE, CLUSTER_AWAY = 4000, 4001, 4002
NO_CLOSE_FRAME = 0
_RETRY_S = 5
_log = structlog.get_logger("gateway")

Talk = Callable[[WebSocket], Awaitable[int]]
"""Serves an open WebSocket; returns its close code, `NO_CLOSE_FRAME` to end the connection without a close frame."""


class OpenStreams:
    """Serves WebSockets within the limits."""

    def __init__(self, limits: StreamLimits, refusals: Refusals) -> None:
        self.limits = limits
        self._refusals = refusals
        self._of: Counter[str] = Counter()
        self._sockets: set[WebSocket] = set()

    async def serve(
        self, call: Call, talk: Talk, *, kind: str, receiver: Callable[[WebSocket], Receive] | None = None
    ) -> web.StreamResponse:
        """Answer the handshake and serve the stream to its end. Raises `RequestError` 429 above a limit."""
        if (problem := handshake_problem(call.request)) is not None:
            return problem
        with self._counted(kind, call.owner):
            try:
                socket = accept(call.request, receiver, ping_seconds=self.limits.ping_seconds)
            except PeerLeft:
                return Upgraded()
            self._sockets.add(socket)
            try:
                await _served(socket, talk)
            finally:
                self._sockets.discard(socket)
                socket.end()
        return Upgraded()

    def close(self) -> None:
        """End every stream: the gateway stops."""
        for socket in list(self._sockets):
            socket.close(CloseReason.GOING_AWAY)

    @contextmanager
    def _counted(self, kind: str, owner: str) -> Iterator[None]:
        for reason, count, most in (
            ("streams in all", self._of.total(), self.limits.streams),
            ("streams of one tenant", self._of[owner], self.limits.of_one_tenant),
        ):
            if count >= most:
                self._refusals.count(reason, peer=owner)
                raise RequestError(429, f"too many open streams: {reason}; close one of them", retry_after_s=_RETRY_S)
        self._of[owner] += 1
        GATEWAY_STREAMS.labels(kind).inc()
        try:
            yield
        finally:
            GATEWAY_STREAMS.labels(kind).dec()
            self._of[owner] -= 1
            if not self._of[owner]:
                del self._of[owner]


async def _served(socket: WebSocket, talk: Talk) -> None:
    """Serve until the end of the stream or until the peer leaves."""
    talking = asyncio.create_task(_code(socket, talk))
    left = asyncio.create_task(socket.gone.wait())
    try:
        await asyncio.wait({talking, left}, return_when=asyncio.FIRST_COMPLETED)
        if talking.done() and (code := talking.result()) != NO_CLOSE_FRAME:
            socket.close(code)
    finally:
        for task in (talking, left):
            task.cancel()
        await asyncio.gather(talking, left, return_exceptions=True)


async def _code(socket: WebSocket, talk: Talk) -> int:
    try:
        return await talk(socket)
    except PeerLeft:
        return NO_CLOSE_FRAME
    except ClusterError as error:
        _log.warning("gateway.stream_failed", problem=str(error))
        return close_code(error)
    except Exception as error:
        _log.error("gateway.stream_failed", problem=type(error).__name__)
        return INTERNAL


def close_code(error: ClusterError) -> int:
    """The close code for an error of the cluster (gateway.md §3.8)."""
    if error.passes:
        return CLUSTER_AWAY
    return NO_LEASE if error.status == HTTPStatus.NOT_FOUND else INTERNAL
