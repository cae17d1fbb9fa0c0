"""`cosmos.feegrant.v1beta1`: one account pays another's fees, up to a limit and a time. Only basic allowances; the
node's other kinds are refused as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
from cosmos.feegrant.v1beta1.feegrant_pb2 import BasicAllowance
from google.protobuf.message import DecodeError

from devnet.chain import bank
from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.events import plain
from devnet.chain.ids import INVALID_ADDRESS
from devnet.chain.keys import valid_address
from devnet.chain.wire import Message

__all__ = ["Allowance", "check_grant", "check_revoke", "handle_grant", "handle_revoke", "use"]

_EXCEEDED = Kind("feegrant", 2, "fee limit exceeded")
_EXPIRED = Kind("feegrant", 3, "fee allowance expired")
_INVALID = Kind("sdk", 18, "invalid request")
_UNKNOWN = Kind("sdk", 6, "unknown request")
_NOT_FOUND = Kind("sdk", 38, "not found")
_BASIC = "/cosmos.feegrant.v1beta1.BasicAllowance"


@dataclass(frozen=True, slots=True)
class Allowance:
    """`limit` None: any amount; `ends_ns` 0: no end."""

    limit: Mapping[str, int] | None
    ends_ns: int


def check_grant(msg: Message) -> None:
    """Check `MsgGrantAllowance` before a block."""
    for name, label in ((msg.granter, "granter"), (msg.grantee, "grantee")):
        if not valid_address(name):
            raise INVALID_ADDRESS(f"invalid {label} address")
    if msg.granter == msg.grantee:
        raise INVALID_ADDRESS("cannot self-grant fee authorization")
    _allowance(msg)


def check_revoke(msg: Message) -> None:
    for name, label in ((msg.granter, "granter"), (msg.grantee, "grantee")):
        if not valid_address(name):
            raise INVALID_ADDRESS(f"invalid {label} address")


def handle_grant(ctx: Context, msg: Message) -> None:
    """Store the allowance, at most one for a pair of accounts; the grantee gets an account."""
    if ctx.get("allowance", msg.granter, msg.grantee) is not None:
        raise _INVALID("fee allowance already exists")
    bank.ensure_account(ctx, msg.grantee)
    ctx.put("allowance", msg.granter, msg.grantee, value=_allowance(msg))
    _emit(ctx, "set_feegrant", msg.granter, msg.grantee)


def handle_revoke(ctx: Context, msg: Message) -> None:
    if ctx.get("allowance", msg.granter, msg.grantee) is None:
        raise _NOT_FOUND("fee-grant not found")
    _revoke(ctx, msg.granter, msg.grantee)


def use(ctx: Context, granter: str, grantee: str, fee: Mapping[str, int], *, prefix: str) -> None:
    """Take `fee` off the allowance; `prefix` begins the log of a refusal. A used-up allowance is revoked."""
    allowance: Allowance | None = ctx.get("allowance", granter, grantee)
    if allowance is None:
        raise _NOT_FOUND(f"{prefix}: fee-grant not found")
    if allowance.ends_ns and allowance.ends_ns < ctx.time_ns:
        raise _EXPIRED(f"{prefix}: basic allowance")
    if allowance.limit is None:
        _emit(ctx, "use_feegrant", granter, grantee)
        return
    left = {denom: amount - fee.get(denom, 0) for denom, amount in allowance.limit.items()}
    if min(left.values(), default=0) < 0 or set(fee) - set(left):
        raise _EXCEEDED(f"{prefix}: basic allowance")
    if not any(left.values()):
        _revoke(ctx, granter, grantee)
        _emit(ctx, "use_feegrant", granter, grantee)
        return
    _emit(ctx, "use_feegrant", granter, grantee)
    rest = {denom: amount for denom, amount in left.items() if amount}
    ctx.put("allowance", granter, grantee, value=Allowance(rest, allowance.ends_ns))
    _emit(ctx, "update_feegrant", granter, grantee)


def _revoke(ctx: Context, granter: str, grantee: str) -> None:
    ctx.put("allowance", granter, grantee, value=None)
    _emit(ctx, "revoke_feegrant", granter, grantee)


def _emit(ctx: Context, kind: str, granter: str, grantee: str) -> None:
    ctx.events.append(plain(kind, granter=granter, grantee=grantee))


def _allowance(msg: Message) -> Allowance:
    if msg.allowance.type_url != _BASIC:
        raise _UNKNOWN(f"an allowance of type {msg.allowance.type_url!r} is not in this simulation")
    try:
        found = BasicAllowance.FromString(msg.allowance.value)
    except DecodeError:
        raise _INVALID("the allowance cannot be decoded") from None
    coins = {coin.denom: int(coin.amount) for coin in found.spend_limit if coin.amount.isdigit()}
    if len(coins) != len(found.spend_limit) or not all(coins.values()):
        raise _INVALID("send amount is invalid")
    return Allowance(coins or None, found.expiration.ToNanoseconds() if found.HasField("expiration") else 0)
