"""Manifests as JSON: a megabyte that is cheap to write and dear to read."""

from __future__ import annotations

from tests.hostile.corpus import HostileInput

__all__ = ["INPUTS"]


def _services(inner: bytes, count: int) -> bytes:
    return b'[{"name":"dc","services":[' + b",".join([inner] * count) + b"]}]"


def _exposes(count: int) -> bytes:
    return _services(b'{"name":"a","expose":[' + b",".join([b"{}"] * count) + b"]}", 1)


INPUTS = (
    HostileInput("340,000 empty services", "manifest", lambda: _services(b"{}", 340_000)),
    HostileInput("340,000 empty exposes", "manifest", lambda: _exposes(340_000)),
    HostileInput("340,000 empty groups", "manifest", lambda: b"[" + b"{}," * 340_000 + b"{}]"),
    HostileInput("500,000 empty lists", "manifest", lambda: b"[" + b"[]," * 300_000 + b"[]]"),
    HostileInput("as many services as are read", "manifest", lambda: _services(b"{}", 24_000)),
    HostileInput("nested 500,000 deep", "manifest", lambda: b"[" * 500_000),
    HostileInput("500,000 numbers", "manifest", lambda: b"[" + b"1," * 500_000 + b"1]"),
    HostileInput("a number of a million digits", "manifest", lambda: b"[" + b"9" * 1_000_000 + b"]"),
    HostileInput("a text of a megabyte", "manifest", lambda: _services(b'{"name":"' + b"a" * 1_000_000 + b'"}', 1)),
    HostileInput("a text of 900,000 commas", "manifest", lambda: _services(b'{"name":"' + b"," * 900_000 + b'"}', 1)),
    HostileInput("a text of escapes", "manifest", lambda: _services(b'{"name":"' + b"\\u0041" * 170_000 + b'"}', 1)),
    HostileInput("a text without an end", "manifest", lambda: b'[{"name":"' + b'\\"' * 500_000),
    HostileInput(
        "an unfinished text after commas", "manifest", lambda: b"[" + b"1," * 60_000 + b'"' + b'\\"' * 400_000
    ),
    HostileInput("one member 100,000 times", "manifest", lambda: b"[{" + b'"name":"",' * 100_000 + b'"name":""}]'),
    HostileInput("two megabytes", "manifest", lambda: b"[" + b" " * 2_000_000 + b"]"),
    HostileInput("bytes that are no UTF-8", "manifest", lambda: b'["' + b"\xff" * 1_000_000 + b'"]'),
)
