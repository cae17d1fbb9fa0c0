"""Request paths as Go's router and number parser treat them (gateway.md §3.1–3.2)."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from lease.go_quote import go_quote
from provider.gateway.errors import RequestError

__all__ = ["clean_path", "escape_path", "parse_uint", "request_path"]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"https?://[^/]*", re.IGNORECASE)


def request_path(target: str) -> tuple[str, str]:
    """Decoded path and raw query of a request target. Raises `RequestError` 400 for a malformed target."""
    path, _, query = _SCHEME.sub("", target, count=1).partition("?")
    if _BAD_ESCAPE.search(path):
        raise RequestError(400, "400 Bad Request")
    return unquote_to_bytes(path).decode(errors="surrogateescape") or "/", query


def clean_path(path: str) -> str:
    """The path without `.`, `..` and doubled slashes, starting with one slash; a trailing slash is kept."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    cleaned = "/" + "/".join(kept)
    return cleaned + "/" if path.endswith("/") and kept else cleaned


def escape_path(path: str) -> str:
    """A decoded path, escaped for a Location header."""
    return quote(path.encode(errors="surrogateescape"), safe="/:@!$&'()*+,;=~")


def parse_uint(text: str, bits: int) -> int:
    """The number in a path. Raises `RequestError` 400 with the text of Go's `strconv.ParseUint`."""
    if not (text.isascii() and text.isdigit()):
        raise RequestError(400, f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    significant = text.lstrip("0")
    if len(significant) > 20 or int(significant or "0") >= 1 << bits:
        raise RequestError(400, f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(significant or "0")
