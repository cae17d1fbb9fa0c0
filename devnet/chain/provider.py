"""`akash.provider.v1beta4`: registering and changing providers (chain.md §4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from akash.provider.v1beta4.event_pb2 import EventProviderCreated, EventProviderUpdated
from akash.provider.v1beta4.types_pb2 import Provider

from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.ids import INVALID_ADDRESS
from devnet.chain.keys import valid_address
from devnet.chain.wire import Message, fill

__all__ = ["NOT_FOUND", "check_provider", "handle_create", "handle_delete", "handle_update"]

_INVALID_URI = Kind("provider", 1, "invalid provider: invalid host uri")
_NOT_ABSOLUTE = Kind("provider", 2, "invalid provider: not absolute host uri")
NOT_FOUND = Kind("provider", 3, "invalid provider: address not found")
_EXISTS = Kind("provider", 4, "invalid provider: already exists")
_INTERNAL = Kind("provider", 10, "internal error")
_DUPLICATE_KEY = Kind("akash", 1, "attributes cannot have duplicate keys")
_BAD_KEY = Kind("akash", 2, "attribute key does not match regexp")
_KEY = re.compile(r"[a-zA-Z][\w/.\-]{1,126}", re.ASCII)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:")


def check_provider(msg: Message) -> None:
    """Check `MsgCreateProvider` or `MsgUpdateProvider` before a block."""
    if not valid_address(msg.owner):
        raise INVALID_ADDRESS("MsgCreate: Invalid Provider Address")
    _check_uri(msg.host_uri)
    _check_attributes(msg.attributes)


def _check_uri(uri: str) -> None:
    """Check the host URI: absolute, `https`, with a host and without a path; a query is accepted (recorded correction
    13).
    """
    try:
        parts = urlsplit(uri)
        host = parts.hostname
    except ValueError:
        raise _INVALID_URI(f"parse {uri!r}") from None
    if not _SCHEME.match(uri):
        raise _NOT_ABSOLUTE(f'validating "{uri}" for absolute URI')
    if parts.scheme != "https":
        raise _INVALID_URI(f'scheme in "{uri}" should be https')
    if not host:
        raise _NOT_ABSOLUTE(f'validating "{uri}" for absolute URI')
    if parts.path:
        raise _INVALID_URI(f'path in "{uri}" should be empty')


def _check_attributes(attributes: Iterable[Message]) -> None:
    seen: set[str] = set()
    for attribute in attributes:
        if attribute.key in seen:
            raise _DUPLICATE_KEY()
        seen.add(attribute.key)
        if not _KEY.fullmatch(attribute.key):
            raise _BAD_KEY()


def handle_create(ctx: Context, msg: Message) -> None:
    if ctx.get("provider", msg.owner) is not None:
        raise _EXISTS(f"id: {msg.owner}")
    _store(ctx, msg)
    ctx.emit(EventProviderCreated(owner=msg.owner))


def handle_update(ctx: Context, msg: Message) -> None:
    """Replace the whole record, even if the provider has leases."""
    if ctx.get("provider", msg.owner) is None:
        raise NOT_FOUND(f"id: {msg.owner}")
    _store(ctx, msg)
    ctx.emit(EventProviderUpdated(owner=msg.owner))


def _store(ctx: Context, msg: Message) -> None:
    row = Provider(owner=msg.owner, host_uri=msg.host_uri, attributes=msg.attributes, info=msg.info)
    ctx.put("provider", msg.owner, value=fill(row))


def handle_delete(ctx: Context, msg: Message) -> None:
    """Refuse the message, which never succeeds (chain.md §4.1)."""
    if ctx.get("provider", msg.owner) is None:
        raise NOT_FOUND()
    raise _INTERNAL("NOTIMPLEMENTED")
