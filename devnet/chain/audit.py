"""`akash.audit.v1`: attributes of providers that an auditor signs, for orders with `signed_by` (chain.md §4.5).

Two of the module's four queries give wrong answers, as on a real node (`query.akash.all_audited`).
"""

from __future__ import annotations

from akash.audit.v1.event_pb2 import EventTrustedAuditorCreated, EventTrustedAuditorDeleted
from akash.audit.v1.types_pb2 import AuditedProvider
from akash.base.attributes.v1.types_pb2 import Attribute

from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.ids import INVALID_ADDRESS
from devnet.chain.keys import valid_address
from devnet.chain.wire import Message

__all__ = ["check_signature", "handle_delete", "handle_sign"]

_NOT_FOUND = Kind("audit", 1, "invalid provider: address not found")
_NO_ATTRIBUTE = Kind("audit", 3, "attribute not found")


def check_signature(msg: Message) -> None:
    """Check either message before a block."""
    for name, label in ((msg.owner, "Owner"), (msg.auditor, "Auditor")):
        if not valid_address(name):
            raise INVALID_ADDRESS(f"MsgCreate: Invalid {label} Address")


def handle_sign(ctx: Context, msg: Message) -> None:
    """Merge the attributes with those signed earlier; the provider need not exist (recorded correction 13)."""
    row = ctx.get("audit", msg.owner, msg.auditor)
    signed = {item.key: item.value for item in row.attributes} if row else {}
    signed.update({item.key: item.value for item in msg.attributes})
    _store(ctx, msg, signed)
    ctx.emit(EventTrustedAuditorCreated(owner=msg.owner, auditor=msg.auditor))


def handle_delete(ctx: Context, msg: Message) -> None:
    """Delete the named keys, or all keys if none is named."""
    row = ctx.get("audit", msg.owner, msg.auditor)
    if row is None:
        raise _NOT_FOUND()
    signed = {item.key: item.value for item in row.attributes} if msg.keys else {}
    for name in msg.keys:
        if name not in signed:
            where = f'for auditor/provider "{msg.auditor}/{msg.owner}"'
            raise _NO_ATTRIBUTE(f'trying to delete non-existing attribute "{name}" {where}')
        del signed[name]
    _store(ctx, msg, signed)
    ctx.emit(EventTrustedAuditorDeleted(owner=msg.owner, auditor=msg.auditor))


def _store(ctx: Context, msg: Message, signed: dict[str, str]) -> None:
    row = AuditedProvider(owner=msg.owner, auditor=msg.auditor)
    row.attributes.extend(Attribute(key=name, value=value) for name, value in sorted(signed.items()))
    ctx.put("audit", msg.owner, msg.auditor, value=row if signed else None)
