"""The server's side of a WebSocket on an HTTP connection (RFC 6455; gateway.md §3.8).

No frame is kept: what a peer sends is handed on as it arrives, and a peer that reads nothing makes its sender wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web
from wsproto.frame_protocol import CloseReason, Frame, FrameProtocol, Opcode, ParseFailed

from provider.gateway.rest.answers import text_error
from provider.gateway.rest.connection import Connection
from provider.gateway.rest.go_response import GoResponse

__all__ = ["PeerLeft", "Upgraded", "WebSocket", "accept", "frame", "handshake_problem"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16
_FIN = 0x80
_CONTROL_MOST = 125

Receive = Callable[[bytes, bool, bool], None]
"""Called with a piece of a binary message, whether the piece is its first, and whether it is its last."""


class PeerLeft(ConnectionError):
    """The peer has closed the WebSocket or the connection."""


class Upgraded(web.StreamResponse):
    """What a handler returns after a WebSocket: nothing more is sent, and the connection ends."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes | bytearray | memoryview = b"") -> None:
        return None


def frame(opcode: Opcode, payload: bytes) -> bytes:
    """One whole frame as a server sends it: final and unmasked."""
    size = len(payload)
    if size <= _CONTROL_MOST:
        return bytes((_FIN | opcode, size)) + payload
    if size < 1 << 16:
        return bytes((_FIN | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_FIN | opcode, 127)) + size.to_bytes(8, "big") + payload


def handshake_problem(request: web.BaseRequest) -> GoResponse | None:
    """The response to a request that is no WebSocket handshake, or one from another origin; None for a good one. The
    checks and their order are those of gorilla/websocket.
    """
    if not (_has(request, "Connection", "upgrade") and _has(request, "Upgrade", "websocket")):
        return _refused(400)
    if request.method != "GET":
        return _refused(405)
    if not _has(request, "Sec-WebSocket-Version", "13"):
        return _refused(400)
    if not _same_origin(request):
        return _refused(403)
    return None if _is_key(request.headers.get("Sec-WebSocket-Key", "")) else _refused(400)


class WebSocket:
    """An open WebSocket. `gone` is set when the peer has left or a close frame was sent."""

    def __init__(
        self, connection: Connection, receiver: Callable[[WebSocket], Receive] | None, *, ping_seconds: float
    ) -> None:
        self._connection = connection
        self._receive = receiver(self) if receiver is not None else None
        self._decoder = FrameProtocol(client=False, extensions=[])
        self._ping_seconds = ping_seconds
        self._begun = False
        self.gone = asyncio.Event()
        self._timer = self._next_ping()

    async def send(self, frames: bytes) -> None:
        """Send whole frames and return when the peer has taken enough of what was sent. Raises `PeerLeft`."""
        if not self._write(frames):
            raise PeerLeft
        await self._connection.writable()
        await asyncio.sleep(0)  # other connections have their turn, however fast this one is

    def close(self, code: int) -> None:
        """Send a close frame without a text; without a code for `NO_STATUS_RCVD`."""
        self._write(frame(Opcode.CLOSE, b"" if code == CloseReason.NO_STATUS_RCVD else code.to_bytes(2, "big")))
        self.end()

    def end(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        self.gone.set()

    def hold(self, on: bool) -> None:
        """Read nothing of the peer while `on`."""
        self._connection.hold_reading(on)

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by the connection with what the peer sends."""
        if not self.gone.is_set():
            self._decoder.receive_bytes(data)
            try:
                for each in self._decoder.received_frames():
                    self._take(each)
            except ParseFailed as error:
                self.close(error.code)
        return False, b""

    def feed_eof(self) -> None:
        """Called by the connection when it is lost."""
        self.end()

    def _take(self, received: Frame) -> None:
        match received.opcode:
            case Opcode.CLOSE:
                self.close(int(received.payload[0]))
            case Opcode.PING if isinstance(received.payload, bytes) and not self._connection.writing_paused:
                self._write(frame(Opcode.PONG, received.payload))
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONTINUATION:
                self._take_data(received)

    def _take_data(self, received: Frame) -> None:
        first, self._begun = not self._begun, not received.message_finished
        if self._receive is not None and isinstance(received.payload, (bytes, bytearray)):
            self._receive(bytes(received.payload), first, received.message_finished)

    def _ping(self) -> None:
        if not self._connection.writing_paused:
            self._write(frame(Opcode.PING, b""))
        self._timer = self._next_ping()

    def _next_ping(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._ping_seconds, self._ping)

    def _write(self, data: bytes) -> bool:
        transport = self._connection.transport
        if transport is None or self.gone.is_set():
            return False
        transport.write(data)
        return True


def accept(
    request: web.BaseRequest, receiver: Callable[[WebSocket], Receive] | None, *, ping_seconds: float
) -> WebSocket:
    """Answer a good handshake and return its WebSocket. `receiver` is called once and returns what takes the peer's
    binary messages; without it they are discarded. Raises `PeerLeft`.
    """
    connection = request.protocol
    assert isinstance(connection, Connection)  # noqa: S101
    if connection.transport is None:
        raise PeerLeft
    digest = hashlib.sha1(request.headers["Sec-WebSocket-Key"].encode() + _GUID, usedforsecurity=False).digest()
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}",
    )
    connection.transport.write("\r\n".join((*lines, "", "")).encode())
    socket = WebSocket(connection, receiver, ping_seconds=ping_seconds)
    connection.set_parser(socket)  # type: ignore[arg-type]
    return socket


def _refused(status: int) -> GoResponse:
    answer = text_error(status, HTTPStatus(status).phrase)
    answer.headers["Sec-Websocket-Version"] = "13"
    return answer


def _has(request: web.BaseRequest, name: str, token: str) -> bool:
    values = request.headers.getall(name, ())
    return any(token == part.strip().lower() for value in values for part in value.split(","))


def _same_origin(request: web.BaseRequest) -> bool:
    origin, host = request.headers.get("Origin", ""), request.headers.get("Host", "")
    try:
        return not origin or urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
