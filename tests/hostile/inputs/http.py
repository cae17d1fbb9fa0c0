"""Bytes of clients after their TLS handshake: HTTP that is large, endless or malformed, and values of headers."""

from __future__ import annotations

import base64
import json

from tests.hostile.corpus import HostileInput

__all__ = ["INPUTS"]

_END = b"\r\n\r\n"


def _get(path: bytes = b"/address", *lines: bytes) -> bytes:
    return b"\r\n".join((b"GET " + path + b" HTTP/1.1", b"Host: x", *lines)) + _END


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _token(claims: object, *, alg: str = "ES256K", padding: int = 0) -> bytes:
    """A token with a signature of zeros."""
    signature = base64.urlsafe_b64encode(bytes(64)).decode().rstrip("=")
    return f"Bearer {_part({'alg': alg, 'pad': 'x' * padding})}.{_part(claims)}.{signature}".encode()


_ISSUER = "akash1vtad8680vhdfqvxx0f2yaxa6agdylelm443h3v"


def _permissions(count: int) -> bytes:
    deployments = [{"dseq": number, "scope": ["status"], "services": ["a"]} for number in range(count)]
    granted = [{"provider": "akash1x", "access": "granular", "deployments": deployments}]
    return _token({"iss": _ISSUER, "leases": {"access": "granular", "permissions": granted}})


INPUTS = (
    HostileInput("10,000 pipelined requests", "http", lambda: _get() * 10_000),
    HostileInput("2,000 pipelined requests for /status", "http", lambda: _get(b"/status") * 2_000),
    HostileInput("2,000 pipelined requests for /version", "http", lambda: _get(b"/version") * 2_000),
    HostileInput("a path of 60,000 slashes", "http", lambda: _get(b"/" * 60_000)),
    HostileInput("a path of 15,000 escapes", "http", lambda: _get(b"/" + b"%2e%2e/" * 8_000)),
    HostileInput("a path of 60,000 letters", "http", lambda: _get(b"/lease/" + b"a" * 60_000 + b"/1/1/status")),
    HostileInput("a header without an end", "http", lambda: b"GET /address HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 60_000),
    HostileInput("120 lines of 60,000 bytes", "http", lambda: _get(b"/address", *[b"A: " + b"a" * 60_000] * 120)),
    HostileInput("10,000 short lines", "http", lambda: _get(b"/address", *[b"a:b"] * 10_000)),
    HostileInput(
        "a body that nobody reads", "http", lambda: _get(b"/status", b"Content-Length: 9000000") + bytes(9_000_000)
    ),
    HostileInput(
        "a manifest of 2 MiB without credentials",
        "http",
        lambda: b"PUT /deployment/1/manifest HTTP/1.1\r\nHost: x\r\nContent-Length: 2097152" + _END + b"[" * 2_097_152,
    ),
    HostileInput(
        "100,000 chunks of one byte",
        "http",
        lambda: b"PUT /address HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked" + _END + b"1\r\na\r\n" * 100_000,
    ),
    HostileInput("an upgrade to HTTP/2", "http", lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(60_000)),
    HostileInput("bytes that are no HTTP", "http", lambda: bytes(range(256)) * 1_000),
    HostileInput("an invented issuer", "token", lambda: _token({"iss": _ISSUER})),
    HostileInput("a token of 60,000 bytes", "token", lambda: _token({"iss": _ISSUER}, padding=44_000)),
    HostileInput("a token of 200,000 bytes", "token", lambda: b"Bearer " + b"a" * 200_000),
    HostileInput("700 permissions", "token", lambda: _permissions(700)),
    HostileInput("10,000 dots", "token", lambda: b"Bearer " + b"." * 10_000),
    HostileInput("claims nested 20,000 deep", "token", lambda: _nested(20_000)),
    HostileInput("an issuer of 40,000 letters", "token", lambda: _token({"iss": "akash1" + "q" * 40_000})),
)


def _nested(depth: int) -> bytes:
    payload = base64.urlsafe_b64encode(b'{"iss":' + b"[" * depth).decode().rstrip("=")
    return f"Bearer {_part({'alg': 'ES256K'})}.{payload}.AAAA".encode()
