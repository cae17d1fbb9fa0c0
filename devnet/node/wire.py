"""The wire format of protobuf, for messages to kubelet and containerd whose fields are texts or messages."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["Field", "encode", "values"]

Field = tuple[int, str | bytes]
"""A field's number, and its text or its encoded message."""
_MORE = 0x80
_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}
"""Wire type to size in bytes."""


def encode(*fields: Field) -> bytes:
    """The message with these fields, in this order."""
    return b"".join(_encoded(number, content) for number, content in fields)


def values(message: bytes, number: int) -> Iterator[bytes]:
    """Each value of a field that is a text, bytes or a message. Raises IndexError when the message is cut off."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        kind = key & 7
        if kind == _VARINT:
            _, place = _read_varint(message, place)
            continue
        size, place = _read_varint(message, place) if kind == _LENGTH else (_FIXED[kind], place)
        if kind == _LENGTH and key >> 3 == number:
            yield message[place : place + size]
        place += size


def _encoded(number: int, content: str | bytes) -> bytes:
    raw = content.encode() if isinstance(content, str) else content
    return _varint(number << 3 | _LENGTH) + _varint(len(raw)) + raw


def _varint(number: int) -> bytes:
    low, high = number & (_MORE - 1), number >> 7
    return bytes([low]) if not high else bytes([low | _MORE]) + _varint(high)


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """A number, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & (_MORE - 1)) << shift
        place, shift = place + 1, shift + 7
        if byte < _MORE:
            return number, place
