"""One HTTP connection: limits on the header, and the responses to malformed HTTP (recordings of the TLS listener).

aiohttp does not limit the time that a header may take, and its error pages name its parser; both are replaced here.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from provider.gateway.config import Limits

__all__ = ["HttpServer"]

_TOO_LARGE = "431 Request Header Fields Too Large"
_BAD = "400 Bad Request"
_FAILED = "500 Internal Server Error"


class _Connection(RequestHandler):
    """Closes a connection whose request header is late; aiohttp limits the idle time between requests."""

    __slots__ = ("_header_seconds", "_header_timer")

    def __init__(self, manager: web.Server, header_seconds: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._header_seconds = header_seconds
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        waiting = self._request_count
        idle = self._waiter is not None and not self._messages
        super().data_received(data)
        if self._request_count != waiting:
            self._stop_timer()
        elif idle and self._header_timer is None:
            self._start_timer()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to a request that cannot be parsed. It is not logged: on the open internet such requests are
        common.
        """
        if isinstance(exc, LineTooLong):
            status, text = 431, _TOO_LARGE
        elif isinstance(exc, HttpProcessingError):
            status, text = 400, _BAD
        else:
            status, text = 500, _FAILED
        response = web.Response(
            status=status, body=text.encode(), headers={"Content-Type": "text/plain; charset=utf-8"}
        )
        response.force_close()
        return response

    def _start_timer(self) -> None:
        self._header_timer = self._loop.call_later(self._header_seconds, self._header_late)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_late(self) -> None:
        self._header_timer = None
        if self.transport is None:
            return
        head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        self.transport.write((head + _BAD).encode())
        self.force_close()


class HttpServer(web.Server):
    """aiohttp's low-level server with the connections and limits of this module."""

    def __init__(self, handler: Any, limits: Limits) -> None:
        super().__init__(handler)
        self._limits = limits

    def __call__(self) -> RequestHandler:
        limits = self._limits
        return _Connection(
            self,
            limits.header_seconds,
            loop=self._loop,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=2.0,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
        )
