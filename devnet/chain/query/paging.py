"""Pages of the market, deployment and escrow queries (chain.md §5): states one after another, an opaque key, no total.

The key holds a CRC-32, the states still to come, the index prefix, the next row's key and the path taken. The other
filters come from the request that brings the key back.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from devnet.chain.errors import QueryRefused
from devnet.chain.wire import Message

__all__ = ["Page", "Row", "Start", "binary_key", "decode_key", "encode_key", "page", "sdk_page", "states_of", "visit"]

_DEFAULT_LIMIT = 100
_SMALLEST_KEY = 5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a table, with its position in the index and its state."""

    key: bytes
    state: int
    value: Any


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[Row]
    next_key: bytes


def binary_key(*parts: str | int | tuple[int, int]) -> bytes:
    """The market's key of an id: texts end in a zero byte, numbers are (value, bytes), big endian."""
    result = b""
    for part in parts:
        if isinstance(part, str):
            result += part.encode() + b"\0"
        elif isinstance(part, tuple):
            result += part[0].to_bytes(part[1], "big")
    return result


def states_of(kind: Any, name: str) -> list[int]:
    """The states that a filter names, all without a filter. Raises `InvalidArgument` for an unknown name."""
    known = {key: value for key, value in kind.items() if value}
    if not name:
        return list(known.values())
    if name not in known:
        raise QueryRefused(grpc.StatusCode.INVALID_ARGUMENT, "invalid state value")
    return [known[name]]


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a page: the states to visit, and the key of the first row in the first state."""

    states: list[int]
    key: bytes


def page(
    rows: Iterable[Row],
    request: Message,
    states: Sequence[int],
    *,
    accept: Callable[[Row], bool],
    by_state: bool,
    path: bytes = b"",
) -> Page:
    """The page that `request.pagination` asks for.

    `by_state` visits the states one after another, else rows in key order; `path` is what the key remembers of it.
    """
    asked = request.pagination
    if asked.offset and len(states) > 1:
        text = "invalid request parameters. if offset is set, filter.state must be provided"
        raise QueryRefused(grpc.StatusCode.INVALID_ARGUMENT, text)
    start = decode_key(asked.key) if asked.key else Start(list(reversed(states) if asked.reverse else states), b"")
    found = visit([row for row in rows if accept(row)], start, by_state=by_state, reverse=asked.reverse)
    limit = asked.limit or _DEFAULT_LIMIT
    found = found[asked.offset :] if not asked.key else found
    shown, rest = found[:limit], found[limit:]
    return Page(shown, encode_key(start.states, rest[0], by_state=by_state, path=path) if rest else b"")


def visit(rows: list[Row], start: Start, *, by_state: bool = True, reverse: bool = False) -> list[Row]:
    rows = sorted(rows, key=lambda row: row.key, reverse=reverse)
    if not by_state:
        found = [row for row in rows if row.state in start.states]
        return [row for row in found if not start.key or _reached(row.key, start.key, reverse=reverse)]
    found = []
    for index, state in enumerate(start.states):
        first = start.key if index == 0 else b""
        found += [
            row for row in rows if row.state == state and (not first or _reached(row.key, first, reverse=reverse))
        ]
    return found


def _reached(key: bytes, start: bytes, *, reverse: bool) -> bool:
    return key <= start if reverse else key >= start


def encode_key(
    states: list[int], row: Row, *, by_state: bool = True, path: bytes = b"", prefix: tuple[bytes, bytes] = (b"", b"")
) -> bytes:
    """The key of the page that begins at `row`. `prefix` is before and after the state in the index."""
    left = states[states.index(row.state) :] if by_state else states
    body = b""
    for part in (bytes(left), prefix[0] + bytes(left[:1]) + prefix[1], row.key.removeprefix(prefix[1])):
        body += bytes([len(part)]) + part
    if path:
        body += bytes([len(path)]) + path
    return zlib.crc32(body).to_bytes(4, "big") + body


def decode_key(key: bytes, *, prefix: bytes = b"") -> Start:
    """The start of a page from a client's key; `prefix` was removed from the row's key."""
    if len(key) < _SMALLEST_KEY:
        raise _invalid("invalid key length")
    if zlib.crc32(key[4:]).to_bytes(4, "big") != key[:4]:
        raise _invalid("invalid checksum")
    parts, rest = [], key[4:]
    for _ in range(3):
        if not rest or len(rest) <= rest[0]:
            raise _invalid("invalid key length")
        parts.append(rest[1 : 1 + rest[0]])
        rest = rest[1 + rest[0] :]
    return Start(list(parts[0]), prefix + parts[2])


def _invalid(reason: str) -> QueryRefused:
    return QueryRefused(grpc.StatusCode.INVALID_ARGUMENT, f"pagination: invalid key: {reason}")


def sdk_page(rows: Sequence[_T], request: Message, key: Callable[[_T], bytes]) -> tuple[list[_T], dict[str, Any]]:
    """The SDK's own paging of rows in the order of their keys: offset or key, and on request (or without a limit) the
    total of the whole set.
    """
    asked = request.pagination
    ordered = sorted(rows, key=key, reverse=asked.reverse)
    start = asked.offset
    if asked.key:
        start = next((index for index, row in enumerate(ordered) if key(row) == asked.key), len(ordered))
    counted = not asked.key and (asked.count_total or not asked.limit)
    end = start + (asked.limit or _DEFAULT_LIMIT)
    next_key = key(ordered[end]) if end < len(ordered) else b""
    return list(ordered[start:end]), {"next_key": next_key, "total": len(ordered) if counted else 0}
