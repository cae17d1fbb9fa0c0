"""Query parameters as Go reads them (gateway.md §3.8–3.9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

from lease.go_quote import go_quote
from provider.gateway.errors import RequestError

__all__ = ["ShellQuery", "StreamQuery", "first_values", "shell_query", "stream_query"]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT32 = range(-(1 << 31), 1 << 31)
_INDEX_MOST = (1 << 31) - 1
_BASES = {"0x": 16, "0o": 8, "0b": 2}
_MOST_ARGUMENTS = 1000


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """`tail`: None for all. `services`: None for all."""

    follow: bool
    tail: int | None
    services: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class ShellQuery:
    command: tuple[str, ...]
    tty: bool
    service: str
    stdin: bool
    pod_index: int


def first_values(query: str) -> Mapping[str, str]:
    """The first value of each parameter; parts that Go cannot read are left out."""
    values: dict[str, str] = {}
    for part in query.split("&"):
        if part and ";" not in part and not _BAD_ESCAPE.search(part):
            name, _, value = part.partition("=")
            values.setdefault(unquote_plus(name), unquote_plus(value, errors="surrogateescape"))
    return values


def stream_query(query: str) -> StreamQuery:
    """The parameters of a log or event stream. Raises `RequestError` 400 with the text of Go."""
    values = first_values(query)
    follow, tail, services = (values.get(name, "") for name in ("follow", "tail", "service"))
    services = services or values.get("services", "")
    return StreamQuery(_bool(follow), _tail(tail), _services(services))


def shell_query(query: str) -> ShellQuery:
    """The parameters of a shell. Raises `RequestError` 400 without a text."""
    values = first_values(query)
    command: list[str] = []
    while argument := values.get(f"cmd{len(command)}", ""):
        command.append(argument)
    tty, service, stdin, index = (values.get(name, "") for name in ("tty", "service", "stdin", "podIndex"))
    pod_index = _index(index)
    if not (command and tty and service and stdin) or pod_index is None or len(command) > _MOST_ARGUMENTS:
        raise RequestError(400, "")
    return ShellQuery(tuple(command), tty == "1", service, stdin == "1", pod_index)


def _bool(text: str) -> bool:
    if text and text not in _TRUE | _FALSE:
        raise RequestError(400, f"strconv.ParseBool: parsing {go_quote(text)}: invalid syntax")
    return text in _TRUE


def _tail(text: str) -> int | None:
    if not text:
        return None
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise RequestError(400, f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(_INT32.stop)) or int(text) not in _INT32:
        raise RequestError(400, f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    if int(text) < -1:
        raise RequestError(400, 'parameter "tail" contains invalid value')
    return None if int(text) == -1 else int(text)


def _services(text: str) -> frozenset[str] | None:
    if text.endswith(","):
        raise RequestError(400, 'parameter "service" must not contain trailing comma')
    return frozenset(filter(None, map(str.strip, text.split(",")))) or None


def _index(text: str) -> int | None:
    """The number in Go's base-0 syntax, None for none below 2³¹."""
    base = _BASES.get(text[:2].lower(), 8 if text.startswith("0") else 10)
    try:
        number = int(text, 0) if text[:2].lower() in _BASES else int(text, base)
    except ValueError:
        return None
    return number if text.isascii() and text[:1].isdigit() and number <= _INDEX_MOST else None
