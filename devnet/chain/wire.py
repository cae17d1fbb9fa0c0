"""Differences between Go's and Python's protobuf (chain.md §2): sub-messages that are always set, three encodings of
numbers.
"""

from __future__ import annotations

import base64
import json
from typing import Any, TypeAlias

import cosmpy.protos  # noqa: F401 - puts the folder with gogoproto on sys.path
from gogoproto import gogo_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = [
    "PRECISION",
    "Message",
    "changed",
    "copied",
    "dec_text",
    "dec_wire",
    "event_json",
    "fill",
    "positive",
    "whole",
]

Message: TypeAlias = Any
"""A generated protobuf message; mypy cannot read the types of the generated packages."""

PRECISION = 10**18
"""The factor by which LegacyDec encodes a value, as text without a point."""

_INT, _DEC = "cosmossdk.io/math.Int", "cosmossdk.io/math.LegacyDec"
_DIGITS = 77
_TIMESTAMP = "google.protobuf.Timestamp"
_QUOTED = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
_required: dict[Descriptor, list[FieldDescriptor]] = {}


def fill(message: Message) -> Message:
    """Set, in place and at every depth, what Go writes even if empty: non-nullable sub-messages and numbers."""
    for field in _needed(message.DESCRIPTOR):
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            if not getattr(message, field.name):
                setattr(message, field.name, b"0" if field.type == FieldDescriptor.TYPE_BYTES else "0")
        elif not _repeated(field):
            getattr(message, field.name).SetInParent()
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in _messages(field, value):
                fill(item)
    return message


def _messages(field: FieldDescriptor, value: Any) -> list[Message]:
    if field.message_type.GetOptions().map_entry:
        return []
    return list(value) if _repeated(field) else [value]


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _needed(descriptor: Descriptor) -> list[FieldDescriptor]:
    if descriptor not in _required:
        _required[descriptor] = [field for field in descriptor.fields if _is_needed(field)]
    return _required[descriptor]


def _is_needed(field: FieldDescriptor) -> bool:
    options = field.GetOptions()
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return options.HasExtension(gogo_pb2.nullable) and not options.Extensions[gogo_pb2.nullable]
    return not _repeated(field) and options.Extensions[gogo_pb2.customtype] in (_INT, _DEC)


def copied(message: Message) -> Message:
    """A copy of the message."""
    result = type(message)()
    result.CopyFrom(message)
    return result


def changed(message: Message, **fields: Any) -> Message:
    """A copy with these scalar fields set."""
    result = copied(message)
    for name, value in fields.items():
        setattr(result, name, value)
    return result


def dec_wire(whole_units: int) -> str:
    """A whole number as LegacyDec text on the wire."""
    return str(whole_units * PRECISION)


def whole(dec: str) -> int:
    """The whole part of a LegacyDec in wire text; an empty text is zero. Raises `ValueError` for other texts."""
    value = int(dec or "0")
    return value // PRECISION if value >= 0 else -(-value // PRECISION)


def dec_text(dec: str) -> str:
    """LegacyDec as the node's JSON writes it: a point and 18 decimals."""
    value = int(dec or "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{abs(value) // PRECISION}.{abs(value) % PRECISION:018d}"


def positive(text: str) -> bool:
    """Whether a client's text is a whole number above 0 that an `Int` or a `LegacyDec` of the node can hold."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS and int(text) > 0


def event_json(message: Message, field: FieldDescriptor) -> str:
    """The JSON text of one top-level field, as in a typed event (chain.md §8): null for an unset message."""
    if field.type == FieldDescriptor.TYPE_MESSAGE and not _repeated(field) and not message.HasField(field.name):
        return "{}" if _is_needed(field) else "null"
    return json.dumps(_plain(field, getattr(message, field.name)), separators=(",", ":"), ensure_ascii=False)


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if _repeated(field):
        return [_single(field, item) for item in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.full_name == _TIMESTAMP:
        return value.ToJsonString()
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return {inner.name: _plain(inner, getattr(value, inner.name)) for inner in field.message_type.fields}
    if field.type == FieldDescriptor.TYPE_ENUM:
        return field.enum_type.values_by_number[value].name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.cpp_type in _QUOTED:
        return str(value)
    return dec_text(value) if field.GetOptions().Extensions[gogo_pb2.customtype] == _DEC else value
