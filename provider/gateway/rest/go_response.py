"""Responses as Go's HTTP server writes them: the same status line, the headers in its order, all in one write.

The handler's headers come in the order of their names, then Date, Content-Length, Connection and Transfer-Encoding. A
body above 2,048 bytes is chunked, as Go's buffer of a response has that size (recordings, public and lease).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus

from aiohttp import web

__all__ = ["BareRefusal", "GoResponse", "bare_refusal"]

_BUFFERED = 2048
_PHRASES = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}
"""Where newer versions of Python have other texts."""


class GoResponse(web.StreamResponse):
    """A whole response; its `headers` may be changed until it is sent."""

    def __init__(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status=status, headers=headers)
        self.content = body
        self._asked: web.BaseRequest | None = None
        self._sent = False

    def again(self) -> GoResponse:
        """The same response, for another request."""
        return GoResponse(self.status, self.content, self.headers)

    async def prepare(self, request: web.BaseRequest) -> None:
        """Remember the request. aiohttp calls `write_eof` next."""
        self._asked = request
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive

    async def write_eof(self, data: bytes | bytearray | memoryview = b"") -> None:
        """Send everything, once. Raises ConnectionResetError when the peer has left."""
        if self._sent:
            return
        self._sent = True
        transport = self._asked.transport if self._asked is not None else None
        if self._asked is None or transport is None:
            raise ConnectionResetError("the peer has left")
        transport.write(self.whole(self._asked.version >= (1, 1), head_only=self._asked.method == "HEAD"))

    def whole(self, newest: bool, *, head_only: bool = False) -> bytes:
        """The bytes of the response. `newest`: to a request of HTTP/1.1."""
        body = self.content
        chunked = newest and len(body) > _BUFFERED
        lines = [f"HTTP/1.{int(newest)} {self.status} {_phrase(self.status)}"]
        lines += [f"{name}: {value}" for name, value in sorted(self.headers.items())]
        lines.append(f"Date: {formatdate(time.time(), usegmt=True)}")
        if not chunked and (body or not head_only):
            lines.append(f"Content-Length: {len(body)}")
        if not self._keep_alive and newest:
            lines.append("Connection: close")
        elif self._keep_alive and not newest:
            lines.append("Connection: keep-alive")
        if chunked:
            lines.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        head = "\r\n".join((*lines, "", "")).encode(errors="surrogateescape")
        return head if head_only else head + body


def bare_refusal(text: str) -> bytes:
    """The whole response to a request whose header is refused; `text` begins with the status."""
    head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    return (head + text).encode()


class BareRefusal(GoResponse):
    """`bare_refusal` as a response; the connection ends with it."""

    def __init__(self, text: str) -> None:
        super().__init__(int(text[:3]), text.encode())
        self.text = text
        self.force_close()

    def whole(self, newest: bool, *, head_only: bool = False) -> bytes:
        return bare_refusal(self.text)


def _phrase(status: int) -> str:
    return _PHRASES.get(status) or HTTPStatus(status).phrase
