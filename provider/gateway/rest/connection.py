"""One HTTP connection: limits on the header and on a peer that does not read, and the responses to malformed HTTP
(recordings of the TLS listener).

aiohttp limits neither the time nor the size of a whole header, waits without end for a peer that reads nothing, and its
error pages name its parser; all are replaced here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from aiohttp import web
from aiohttp.http import HttpRequestParser
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from provider.gateway.config import Limits
from provider.gateway.rest.go_response import BareRefusal, bare_refusal

__all__ = ["MAX_PIPELINED", "Connection", "HttpServer"]

_TOO_LARGE = "431 Request Header Fields Too Large"
_BAD = "400 Bad Request"
_FAILED = "500 Internal Server Error"
MAX_PIPELINED = 1
"""Requests that are read before the one before them is answered; each may have a header of 64 KiB."""
_SILENT = logging.Logger("gateway", level=logging.CRITICAL + 1)
"""The dispatcher logs what a handler raises. What aiohttp logs besides are tracebacks of peers that left."""
_READ_BYTES = 16 * 1024
_LINGER_S = 1.0
_RANDOM = Random()  # noqa: S311  spreads timers, protects nothing
_WRITE_BYTES = 64 * 1024
"""What a connection keeps of a body, and of responses that its peer has not taken yet."""


class Connection(RequestHandler):
    """Closes a connection whose request header is late or too large, and one whose peer does not read; aiohttp limits
    the idle time between requests.
    """

    __slots__ = (
        "_header_bytes",
        "_header_timer",
        "_limits",
        "_refused",
        "_when_lost",
        "_write_timer",
    )

    def __init__(self, manager: web.Server, limits: Limits, **options: Any) -> None:
        super().__init__(manager, **options)
        self._parser = HttpRequestParser(
            self,
            self._loop,
            _READ_BYTES,
            max_line_size=limits.header_bytes,
            max_field_size=limits.header_bytes,
            max_headers=limits.headers,
            payload_exception=web.RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=MAX_PIPELINED,
        )
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_PIPELINED, MAX_PIPELINED - 1
        self._limits = limits
        self._header_bytes = 0
        self._refused = False
        self._when_lost: list[Callable[[], None]] = []
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
        for call in self._when_lost:
            call()
        self._when_lost.clear()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self._loop.call_later(self._limits.write_seconds, self._abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    async def writable(self) -> None:
        """Return when the peer has taken enough of the responses before. aiohttp waits within large responses only."""
        await self._drain_helper()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._upgraded:
            super().data_received(data)
            return
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

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call `call` at the end of the connection."""
        self._when_lost.append(call)

    def hold_reading(self, on: bool) -> None:
        """Read nothing of the peer while `on`."""
        if on:
            self._pause_reading_for_buffer()
        else:
            self._resume_reading_for_buffer()

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
            text = _TOO_LARGE
        elif isinstance(exc, HttpProcessingError):
            text = f"{_BAD}: missing required Host header" if "Missing 'Host'" in exc.message else _BAD
        else:
            text = _FAILED
        return BareRefusal(text)

    def _make_error_handler(self, err_info: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Send the response, then discard what the peer still sends: a connection that is closed with bytes unread is
        reset, and the peer would not see the response.
        """

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            response = self.handle_error(request, err_info.status, err_info.exc, err_info.message)
            await response.prepare(request)
            await response.write_eof()
            self._discard()
            await asyncio.sleep(_LINGER_S)
            return response

        return handler

    def _discard(self) -> None:
        self._refused = True
        self._resume_reading_for_buffer()

    def _start_timer(self) -> None:
        limit = self._limits.header_seconds * _RANDOM.uniform(1, 1.2)  # a thousand connections are not late at once
        self._header_timer = self._loop.call_later(limit, self._header_late)

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
        self.transport.write(bare_refusal(status))
        self._discard()
        self._loop.call_later(_LINGER_S, self.force_close)

    def _abort(self) -> None:
        """The peer has taken nothing for too long: what is written to it is lost."""
        self._write_timer = None
        if self.transport is not None:
            self.transport.abort()


class HttpServer(web.Server):
    """aiohttp's low-level server with the connections and limits of this module."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: Limits) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            if isinstance(request.protocol, Connection):
                await request.protocol.writable()
            return await handler(request)

        super().__init__(handle)
        self._limits = limits

    def __call__(self) -> RequestHandler:
        limits = self._limits
        return Connection(
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
            logger=_SILENT,
        )
