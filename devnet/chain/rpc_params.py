"""Parameters of CometBFT's RPC: their types, and how each is written in a POST body and in a URL.

Integers are strings in JSON (a JSON number is refused, recorded correction 8); bytes are base64 in JSON, hex for `data`
of `abci_query`, `0x…` or a quoted text in a URL.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Kind", "RpcError", "from_json", "from_url"]

Kind = str
"""`int`, `bytes` (base64 in JSON), `hex`, `str` or `bool`."""

_INVALID_PARAMS = -32602
_INTERNAL = -32603
_MESSAGES = {_INVALID_PARAMS: "Invalid params", _INTERNAL: "Internal error", -32601: "Method not found"}


class RpcError(Exception):
    """A JSON-RPC error object; `data` is that of CometBFT, empty for an unknown method."""

    def __init__(self, data: str, *, code: int = _INTERNAL) -> None:
        super().__init__(data)
        self.code = code
        self.data = data

    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "message": _MESSAGES.get(self.code, "Invalid Request")}
        return {**body, "data": self.data} if self.data else body


def _invalid(source: str, reason: str) -> RpcError:
    return RpcError(f"error converting {source} params to arguments: {reason}", code=_INVALID_PARAMS)


def from_json(kinds: Mapping[str, Kind], given: Any) -> dict[str, Any]:
    """Named or positional parameters of a POST. Unknown names are ignored, as the node does."""
    if isinstance(given, list):
        given = dict(zip(kinds, given, strict=False))
    if not isinstance(given, dict):
        raise _invalid("json", "expected an object or an array")
    return {name: _json_value(kind, given[name]) for name, kind in kinds.items() if given.get(name) is not None}


def _json_value(kind: Kind, value: Any) -> Any:
    if kind == "int":
        return _json_int(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise _invalid("json", f"json: cannot unmarshal {json.dumps(value)[:60]}")
    return value if kind == "str" else _json_bytes(kind, value)


def _json_int(value: Any) -> int:
    if not isinstance(value, str):
        raise _invalid("json", f'invalid 64-bit integer encoding "{json.dumps(value)[:60]}", expected string')
    if not value.removeprefix("-").isascii() or not value.removeprefix("-").isdigit() or len(value) > 20:
        raise _invalid("json", f"invalid character {value[:1]!r} looking for beginning of value")
    return int(value)


def _json_bytes(kind: Kind, value: str) -> bytes:
    try:
        return bytes.fromhex(value) if kind == "hex" else base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        pass
    if kind == "hex":
        wrong = next((char for char in value if char not in "0123456789abcdefABCDEF"), "")
        text = f"invalid byte: U+{ord(wrong):04X} {wrong!r}" if wrong else "odd length hex string"
        raise _invalid("json", f"encoding/hex: {text}")
    raise _invalid("json", "illegal base64 data at input byte 0")


def from_url(kinds: Mapping[str, Kind], given: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a GET: numbers bare or quoted, texts quoted, bytes as `0x…` or quoted text."""
    return {name: _url_value(kind, given[name]) for name, kind in kinds.items() if given.get(name)}


def _url_value(kind: Kind, value: str) -> Any:
    quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    bare = value[1:-1] if quoted else value
    if kind == "int":
        if not bare.removeprefix("-").isdigit() or len(bare) > 20:
            raise _invalid("http", f'invalid 64-bit integer encoding "{value[:60]}", expected string')
        return int(bare)
    if kind == "bool":
        return bare == "true"
    if value.startswith("0x"):
        return _url_hex(kind, value)
    if not quoted:
        raise _invalid("http", f"invalid character {value[:1]!r} looking for beginning of value")
    return bare if kind == "str" else bare.encode()


def _url_hex(kind: Kind, value: str) -> Any:
    try:
        raw = bytes.fromhex(value[2:])
    except ValueError:
        raise _invalid("http", "encoding/hex: invalid byte") from None
    return raw.decode("utf-8", "replace") if kind == "str" else raw
