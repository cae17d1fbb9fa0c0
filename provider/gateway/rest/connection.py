"""One HTTP connection: limits on the header and on a peer that does not read, and the responses to malformed HTTP
(recordings of the TLS listener).

aiohttp limits neither the time nor the size of a whole header, waits without end for a peer that reads nothing, and its
error pages name its parser; all are replaced here.
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
_READ_BYTES = 16 * 1024
_WRITE_BYTES = 64 * 1024
"""What a connection keeps of a body, and of responses that its peer has not taken yet."""


class _Connection(RequestHandler):
    """Closes a connection whose request header is late or too large, and one whose peer does not read; aiohttp limits
    the idle time between requests.
    """

    __slots__ = ("_header_bytes", "_header_timer", "_limits", "_write_timer")

    def __init__(self, manager: web.Server, limits: Limits, **options: Any) -> None:
        super().__init__(manager, **options)
        self._limits = limits
        self._header_bytes = 0
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._start_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self._loop.call_later(self._limits.write_seconds, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        idle = self._waiter is not None and not self._messages
        header = self._in_header()
        super().data_received(data)
        if self._request_count != before:
            self._stop_timer()
            self._header_bytes = 0
            return
        if header:
            self._header_bytes += len(data)
        if self._header_bytes > self._limits.header_bytes:
            self._refuse_header(_TOO_LARGE)
        elif idle and self._header_timer is None:
            self._start_timer()

    def _in_header(self) -> bool:
        """Whether the bytes that arrive now belong to a header: the body of the newest request is complete."""
        if self._messages:
            return self._messages[-1][1].is_eof()
        return self._current_request is None or self._current_request.content.is_eof()

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
        self._header_timer = self._loop.call_later(self._limits.header_seconds, self._header_late)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _header_late(self) -> None:
        self._header_timer = None
        self._refuse_header(_BAD)

    def _refuse_header(self, status: str) -> None:
        if self.transport is None:
            return
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        self.transport.write((head + status).encode())
        self.force_close()

    def _abort(self) -> None:
        """The peer has taken nothing for too long: what is written to it is lost."""
        self._write_timer = None
        if self.transport is not None:
            self.transport.abort()


class HttpServer(web.Server):
    """aiohttp's low-level server with the connections and limits of this module."""

    def __init__(self, handler: Any, limits: Limits) -> None:
        super().__init__(handler)
        self._limits = limits

    def __call__(self) -> RequestHandler:
        limits = self._limits
        return _Connection(
            self,
            limits,
            loop=self._loop,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=2.0,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
            read_bufsize=_READ_BYTES,
        )
