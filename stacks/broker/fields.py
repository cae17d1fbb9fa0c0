"""The part of protobuf's wire format that is needed to read a URN and to distinguish configurations.

The generated messages are not used: importing them imports all of the SDK (0.4 s and 15 MB in every broker). Numbers of
fields: pulumi/provider.proto, ConfigureRequest, CheckRequest, DiffRequest and similar messages.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["configuration", "encode", "failures", "parse", "stack_of"]

_VARIABLES, _ARGS = 1, 2
_OF_THE_RESOURCE = frozenset({7, 8, 9, 10})
"""id, urn, name and type of the provider resource: different in each stack, and without effect on the plugin."""
_KUBECONFIG = b"kubernetes:config:kubeconfig"
_LONGEST_PATH = 4096


def parse(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field; numbers as they are encoded. Raises `ValueError` for bytes that are no
    message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        start = at
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, start = _varint(message, at)
                at = start + size
            case 5:
                at += 4
            case kind:
                raise ValueError(f"wire type {kind} is not in use")
        if at > len(message) or not tag >> 3:
            raise ValueError("the message is cut off")
        yield tag >> 3, message[start:at]


def encode(*fields: tuple[int, bytes]) -> bytes:
    """A message of length-delimited fields."""
    return b"".join(_number(number << 3 | 2) + _number(len(value)) + value for number, value in fields)


def stack_of(message: bytes) -> str:
    """The stack in the URN of a request about a resource (field 1 or 2); empty if there is none."""
    try:
        for number, value in parse(message):
            if number in {1, 2} and value.startswith(b"urn:pulumi:"):
                return value.split(b":", 3)[2].decode(errors="replace")
    except ValueError:
        pass
    return ""


def failures(response: bytes) -> bytes:
    """The failures in a CheckResponse as one text; empty if there are none."""
    try:
        return b" ".join(value for number, value in parse(response) if number == 2)
    except ValueError:
        return b""


def configuration(request: bytes) -> bytes:
    """A key that is equal for Configure requests that make equal plugins, whatever the order of their maps. Raises
    `ValueError`.

    A kubeconfig that is named counts with the file's identity: renewed credentials are another configuration.
    """
    parts: list[bytes] = []
    named: bytes | None = None
    for number, value in parse(request):
        if number == _VARIABLES:
            entry = dict(parse(value))
            named = entry.get(2, b"") if entry.get(1) == _KUBECONFIG else named
        if number not in _OF_THE_RESOURCE:
            parts.append(encode((number, _in_order(value) if number in {_VARIABLES, _ARGS} else value)))
    parts.extend(_files(named))
    return hashlib.sha256(b"".join(sorted(parts))).digest()


def _in_order(message: bytes) -> bytes:
    return b"".join(sorted(encode(field) for field in parse(message)))


def _files(named: bytes | None) -> Iterator[bytes]:
    """Path, time and size of the kubeconfig. Anything left to the environment comes from this process's."""
    text = (named or b"").decode(errors="replace") or os.environ.get("KUBECONFIG", "")
    for path in text.split(":") if text else [str(Path.home() / ".kube" / "config")]:
        if len(path) < _LONGEST_PATH and "\n" not in path and "\0" not in path and Path(path).is_file():
            found = Path(path).stat()
            yield f"{path} {found.st_ino} {found.st_mtime_ns} {found.st_size}".encode()


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The value and the offset of the next byte. Raises `ValueError` when it does not end or is longer than ten
    bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number does not end")


def _number(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
