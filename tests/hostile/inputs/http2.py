"""Bytes of clients of the gRPC gateway after their TLS handshake: floods of HTTP/2 frames, legal or nearly so."""

from __future__ import annotations

from tests.hostile.corpus import HostileInput

__all__ = ["INPUTS"]

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 8, 9
_END_HEADERS = 4


def _frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field without indexing (RFC 7541 §6.2.2); names and values below 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS)
_CALL = (
    b"\x83\x87"  # :method POST, :scheme https
    + _literal(b":path", b"/akash.provider.v1.ProviderRPC/BidScreening")
    + _literal(b":authority", b"x")
    + _literal(b"content-type", b"application/grpc")
    + _literal(b"te", b"trailers")
)


def _call(stream: int) -> bytes:
    return _frame(_HEADERS, _CALL, flags=_END_HEADERS, stream=stream)


def _calls(count: int, after: bytes = b"") -> bytes:
    return b"".join(_call(stream) + after for stream in range(1, 2 * count, 2))


def _reset(count: int) -> bytes:
    streams = range(1, 2 * count, 2)
    return b"".join(_call(stream) + _frame(_RESET, bytes(4), stream=stream) for stream in streams)


def _unfinished(count: int) -> bytes:
    """Calls whose message of 60,000 bytes lacks its end."""
    message = b"\x00" + (60_000).to_bytes(4, "big") + bytes(16_000)
    return b"".join(_call(stream) + _frame(_DATA, message, stream=stream) for stream in range(1, 2 * count, 2))


def _headers_without_end(count: int) -> bytes:
    more = _frame(_CONTINUATION, _literal(b"a", b"b" * 100) * 100, stream=1)
    return _frame(_HEADERS, _CALL, stream=1) + more * count


INPUTS = (
    HostileInput("100,000 pings", "http2", lambda: _START + _frame(_PING, bytes(8)) * 100_000),
    HostileInput("100,000 settings", "http2", lambda: _START + _frame(_SETTINGS) * 100_000),
    HostileInput("100,000 windows", "http2", lambda: _START + _frame(_WINDOW, b"\0\0\0\1") * 100_000),
    HostileInput("10,000 calls that are reset", "http2", lambda: _START + _reset(10_000)),
    HostileInput("10,000 calls without a message", "http2", lambda: _START + _calls(10_000)),
    HostileInput("100 unfinished messages", "http2", lambda: _START + _unfinished(100)),
    HostileInput("a header without an end", "http2", lambda: _START + _headers_without_end(200)),
    HostileInput("100,000 empty frames", "http2", lambda: _START + _call(1) + _frame(_DATA, stream=1) * 100_000),
    HostileInput("half a preface", "http2", lambda: _START[:12]),
    HostileInput("bytes that are no HTTP/2", "http2", lambda: bytes(range(256)) * 4_000),
)
