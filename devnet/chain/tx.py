"""The decoder of transactions, with the node's errors for invalid bytes."""

from __future__ import annotations

from dataclasses import dataclass

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, TxBody, TxRaw
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]

from devnet.chain.errors import Kind, Refused
from devnet.chain.messages import MESSAGES, signer_of
from devnet.chain.wire import Message, fill

__all__ = ["Tx", "decode"]

_PARSE = Kind("sdk", 2, "tx parse error: tx parse error")
_NO_MESSAGES = Kind("sdk", 18, "invalid request")
_WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "bytes", 5: "fixed32"}
_NON_CRITICAL = 1 << 10
"""Unknown fields with this bit in their number are allowed in a body (ADR-020)."""


@dataclass(frozen=True, slots=True)
class Tx:
    """A decoded transaction. `messages` have the fields that Go sets; `size` is in bytes."""

    raw: Message
    body: Message
    auth: Message
    messages: tuple[Message, ...]
    size: int

    @property
    def signers(self) -> list[str]:
        """The addresses that must sign, each once; the first one pays the fee."""
        return list(dict.fromkeys(signer_of(message) for message in self.messages))


def decode(data: bytes) -> Tx:
    """Decode a transaction. Raises `sdk` 2 for invalid bytes, and 18 for a transaction without messages."""
    raw = _parse(TxRaw, data, "*tx.TxRaw")
    body = _parse(TxBody, raw.body_bytes, "*tx.TxBody", allow=_NON_CRITICAL)
    auth = _parse(AuthInfo, raw.auth_info_bytes, "*tx.AuthInfo")
    messages = tuple(_message(packed) for packed in body.messages)
    if not messages:
        raise _NO_MESSAGES("must contain at least one message")
    return Tx(raw, body, auth, messages, len(data))


def _message(packed: Message) -> Message:
    row = MESSAGES.get(packed.type_url)
    if row is None:
        raise _PARSE(f"unable to resolve type URL {packed.type_url}")
    package, _, name = packed.type_url[1:].rpartition(".")
    return fill(_parse(row.kind, packed.value, f"*{package.rsplit('.', 1)[-1]}.{name}"))


def _parse(kind: type[Message], data: bytes, go_name: str, *, allow: int = 0) -> Message:
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise _broken(data) from None
    for unknown in UnknownFieldSet(message):
        if not (allow and unknown.field_number & allow):
            wire = _WIRE_TYPES.get(unknown.wire_type, "group")
            raise _PARSE(f'errUnknownField "{go_name}": {{TagNum: {unknown.field_number}, WireType:"{wire}"}}')
    return message


def _broken(data: bytes) -> Refused:
    # Go's protobuf writes a no-break space here on purpose, so that programs do not match its texts.
    reason = "proto:\u00a0invalid field number" if data and data[0] >> 3 == 0 else "unexpected EOF"
    return _PARSE(f"invalid length; {reason}")
