"""The sources of a deposit (chain.md §4.2), and deposits to an existing account."""

from __future__ import annotations

from akash.base.deposit.v1.types_pb2 import Source
from akash.escrow.id.v1.types_pb2 import Scope
from akash.escrow.types.v1.types_pb2 import Depositor

from devnet.chain import bank, escrow
from devnet.chain.context import Context
from devnet.chain.errors import Kind, undefined
from devnet.chain.wire import Message, dec_wire

__all__ = ["authorize", "check_deposit_sources", "check_top_up", "handle_top_up"]

_INVALID_SOURCE = Kind("akash", 4, "invalid deposit source")
_INVALID_ID = Kind("escrow", 12, "invalid ID")
_INVALID_DEPOSIT = Kind("escrow", 16, "invalid deposit")
_XID_PARTS = {Scope.deployment: 2, Scope.bid: 5}


def check_deposit_sources(deposit: Message) -> None:
    """Check that there are sources and no duplicates. Raises `akash` 4."""
    if not deposit.sources:
        raise _INVALID_SOURCE("empty deposit sources")
    seen: set[int] = set()
    for source in deposit.sources:
        if source in seen:
            raise _INVALID_SOURCE(f"duplicate deposit source type {source}")
        if source not in (Source.balance, Source.grant):
            raise _INVALID_SOURCE(f"invalid deposit source type {source}")
        seen.add(source)


def authorize(ctx: Context, deposit: Message, owner: str) -> list[Message]:
    """The depositors that together pay the amount, from the sources in order; grants are always empty."""
    denom, missing = deposit.amount.denom, int(deposit.amount.amount)
    found: list[Message] = []
    for source in deposit.sources:
        held = bank.balance(ctx.state, owner, denom) if source == Source.balance else 0
        part = min(held, missing)
        if part:
            row = Depositor(owner=owner, height=ctx.height, source=source)
            row.balance.denom, row.balance.amount = denom, dec_wire(part)
            found.append(row)
            missing -= part
    if missing:
        raise undefined("deposit invalid: insufficient balance")
    return found


def check_top_up(msg: Message) -> None:
    """Check `MsgAccountDeposit` before a block."""
    if msg.id.scope not in _XID_PARTS:
        raise _INVALID_ID("invalid scope")
    if len(msg.id.xid.split("/")) != _XID_PARTS[msg.id.scope]:
        raise _INVALID_ID("invalid xid format")
    check_deposit_sources(msg.deposit)
    if not msg.deposit.amount.amount.isdigit() or int(msg.deposit.amount.amount) <= 0:
        raise _INVALID_DEPOSIT()


def handle_top_up(ctx: Context, msg: Message) -> None:
    """`MsgAccountDeposit`, which any account may send. An overdrawn account pays its debts at once (recorded correction
    12).
    """
    account = escrow.get_account(ctx, msg.id.scope, msg.id.xid)
    if account.state.state not in (escrow.OPEN, escrow.OVERDRAWN):
        raise escrow.ACCOUNT_CLOSED()
    deposits = authorize(ctx, msg.deposit, msg.signer)
    add = escrow.take_deposit if account.state.state == escrow.OPEN else escrow.top_up
    add(ctx, account, deposits)
