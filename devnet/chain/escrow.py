"""Escrow accounts and payments: deposits, lazy settlement, overdraw (chain.md §6, recorded corrections 3 and 12).

Nothing is charged per block. An account is settled when a transaction touches it, at most once a height: a second
settlement at one height sees no payments, which leaves open what a first one would have closed. This defect of the
real node is kept, because a provider has to handle it.
"""

from __future__ import annotations

from dataclasses import dataclass

from akash.escrow.id.v1 import types_pb2 as ids
from akash.escrow.types.v1 import types_pb2 as types
from cosmos.base.v1beta1.coin_pb2 import Coin, DecCoin

from devnet.chain import oracle
from devnet.chain.bank import send
from devnet.chain.context import Context
from devnet.chain.errors import Kind, Refused, panicked
from devnet.chain.keys import module_address
from devnet.chain.wire import PRECISION, Message, copied, whole

__all__ = [
    "ACCOUNT_CLOSED",
    "ACCOUNT_NOT_FOUND",
    "BID",
    "DEPLOYMENT",
    "OPEN",
    "OVERDRAWN",
    "Settled",
    "close_account",
    "close_payment",
    "get_account",
    "get_payment",
    "open_account",
    "open_payment",
    "put_account",
    "take_deposit",
    "top_up",
    "withdraw",
]

BID, DEPLOYMENT = ids.Scope.bid, ids.Scope.deployment
OPEN, CLOSED, OVERDRAWN = types.State.open, types.State.closed, types.State.overdrawn
ESCROW = module_address("escrow")

_ACCOUNT_EXISTS = Kind("escrow", 1, "account exists")
ACCOUNT_CLOSED = Kind("escrow", 2, "account closed")
ACCOUNT_NOT_FOUND = Kind("escrow", 3, "account not found")
_OVERDRAWN = Kind("escrow", 4, "account overdrawn")
_PAYMENT_EXISTS = Kind("escrow", 6, "payment exists")
_PAYMENT_CLOSED = Kind("escrow", 7, "payment closed")
_PAYMENT_NOT_FOUND = Kind("escrow", 8, "payment not found")


@dataclass(slots=True)
class Settled:
    """A settled account. `payments` is empty if it was settled before at this height."""

    account: Message
    payments: list[Message]
    overdrawn: bool = False


def get_account(ctx: Context, scope: ids.Scope, xid: str) -> Message:
    """The account. Raises `escrow` 3 if there is none."""
    found = ctx.get("escrow_account", scope, xid)
    if found is None:
        raise ACCOUNT_NOT_FOUND()
    return copied(found)


def put_account(ctx: Context, account: Message) -> None:
    ctx.put("escrow_account", account.id.scope, account.id.xid, value=account)


def get_payment(ctx: Context, xid: str, payment: str) -> Message:
    """A payment from a deployment's account. Raises `escrow` 8 if there is none."""
    found = ctx.get("escrow_payment", xid, payment)
    if found is None:
        raise _PAYMENT_NOT_FOUND()
    return copied(found)


def _put_payment(ctx: Context, payment: Message) -> None:
    ctx.put("escrow_payment", payment.id.aid.xid, payment.id.xid, value=payment)


def open_account(ctx: Context, scope: ids.Scope, xid: str, *, owner: str, deposits: list[Message]) -> None:
    """Create an account with the deposits. Raises `escrow` 1 if it exists."""
    if ctx.get("escrow_account", scope, xid) is not None:
        raise _ACCOUNT_EXISTS()
    account = types.Account()
    account.id.scope, account.id.xid = scope, xid
    account.state.owner, account.state.state, account.state.settled_at = owner, OPEN, ctx.height
    _collect(ctx, account, deposits)
    put_account(ctx, account)


def take_deposit(ctx: Context, account: Message, deposits: list[Message]) -> None:
    """Add deposits to an open account."""
    _collect(ctx, account, deposits)
    put_account(ctx, account)


def _collect(ctx: Context, account: Message, deposits: list[Message]) -> None:
    for deposit in deposits:
        amount = whole(deposit.balance.amount)
        send(ctx, deposit.owner, ESCROW, {deposit.balance.denom: amount})
        _funds(account, deposit.balance.denom, amount)
        _transferred(account, deposit.balance.denom, 0)
        account.state.deposits.append(deposit)


def _funds(account: Message, denom: str, change: int) -> None:
    _adjust(account.state.funds, denom, change, types.Balance)


def _transferred(account: Message, denom: str, change: int) -> None:
    _adjust(account.state.transferred, denom, change, DecCoin)


def _adjust(rows: Message, denom: str, change: int, kind: type) -> None:
    row = next((row for row in rows if row.denom == denom), None)
    if row is None:
        rows.append(kind(denom=denom, amount="0"))
        row = rows[-1]
    row.amount = str(int(row.amount) + change * PRECISION)


def settle(ctx: Context, xid: str) -> Settled:
    """Charge a deployment's account for the blocks since it was last settled; an overdrawn one pays out and ends.

    Raises `escrow` 2 when the account is closed and 4 when it was overdrawn before.
    """
    account = get_account(ctx, DEPLOYMENT, xid)
    if account.state.state == CLOSED:
        raise ACCOUNT_CLOSED()
    if account.state.state == OVERDRAWN:
        raise _OVERDRAWN()
    blocks = ctx.height - account.state.settled_at
    if blocks == 0:
        return Settled(account, [])
    account.state.settled_at = ctx.height
    settled = Settled(account, _open_payments(ctx, xid))
    for payment in settled.payments:
        settled.overdrawn |= _charge(account, payment, blocks)
    if settled.overdrawn:
        _overdraw(ctx, settled)
    _save(ctx, settled)
    return settled


def _save(ctx: Context, settled: Settled) -> None:
    put_account(ctx, settled.account)
    for payment in settled.payments:
        _put_payment(ctx, payment)


def _open_payments(ctx: Context, xid: str) -> list[Message]:
    rows = (row for _, row in ctx.state.items("escrow_payment", (xid,)))
    return [copied(row) for row in rows if row.state.state == OPEN]


def _charge(account: Message, payment: Message, blocks: int) -> bool:
    """Move the owed amount from the funds to the payment; True if the funds did not suffice."""
    rate = payment.state.rate
    owed = int(rate.amount) * blocks // PRECISION
    paid = min(owed, _available(account, rate.denom))
    _spend(account, rate.denom, paid)
    _funds(account, rate.denom, -owed)
    _transferred(account, rate.denom, paid)
    payment.state.balance.amount = str(int(payment.state.balance.amount) + paid * PRECISION)
    payment.state.unsettled.amount = str(int(payment.state.unsettled.amount) + (owed - paid) * PRECISION)
    return paid < owed


def _available(account: Message, denom: str) -> int:
    return sum(whole(row.balance.amount) for row in account.state.deposits if row.balance.denom == denom)


def _spend(account: Message, denom: str, amount: int) -> None:
    """Take `amount` from the deposits, oldest first; empty deposits are removed."""
    rows = [copied(row) for row in account.state.deposits]
    for row in rows:
        if row.balance.denom == denom and amount:
            part = min(amount, whole(row.balance.amount))
            row.balance.amount = str(int(row.balance.amount) - part * PRECISION)
            amount -= part
    del account.state.deposits[:]
    account.state.deposits.extend(row for row in rows if int(row.balance.amount))


def _overdraw(ctx: Context, settled: Settled) -> None:
    settled.account.state.state = OVERDRAWN
    for payment in settled.payments:
        payment.state.state = OVERDRAWN
        _pay_in_akt(ctx, settled.account, payment)
        _pay_out(ctx, payment)
    _refund(ctx, settled.account)


def _pay_in_akt(ctx: Context, account: Message, payment: Message) -> None:
    """What is owed in uact out of deposits of uakt, as far as they go, when there is a price (recorded correction 12).

    Whether an account whose uakt would pay all of it ends too was not recorded; here it does, and the rest goes back.
    """
    price, debt = oracle.price(ctx), whole(payment.state.unsettled.amount)
    if not price or payment.state.unsettled.denom != "uact":
        return
    paid = min(_available(account, "uakt"), -(-debt * PRECISION // price))
    if not paid:
        return
    send(ctx, ESCROW, payment.state.owner, {"uakt": paid})
    _spend(account, "uakt", paid)
    _funds(account, "uakt", -paid)
    _transferred(account, "uakt", paid)
    payment.state.unsettled.amount = str(max(0, debt - paid * price // PRECISION) * PRECISION)


def _pay_out(ctx: Context, payment: Message) -> None:
    amount = whole(payment.state.balance.amount)
    if not amount:
        return
    send(ctx, ESCROW, payment.state.owner, {payment.state.balance.denom: amount})
    payment.state.balance.amount = str(int(payment.state.balance.amount) - amount * PRECISION)
    payment.state.withdrawn.amount = str(int(payment.state.withdrawn.amount) + amount)


def _refund(ctx: Context, account: Message) -> None:
    """Return the rest of each deposit to its depositor."""
    for row in account.state.deposits:
        amount = whole(row.balance.amount)
        send(ctx, ESCROW, row.owner, {row.balance.denom: amount})
        _funds(account, row.balance.denom, -amount)
    del account.state.deposits[:]


def open_payment(ctx: Context, xid: str, payment: str, *, owner: str, rate: Message) -> None:
    """Create a payment from a deployment's account. Raises `escrow` 4 if the account is overdrawn."""
    if settle(ctx, xid).overdrawn:
        raise _OVERDRAWN()
    if ctx.get("escrow_payment", xid, payment) is not None:
        raise _PAYMENT_EXISTS()
    row = types.Payment()
    row.id.aid.scope, row.id.aid.xid, row.id.xid = DEPLOYMENT, xid, payment
    row.state.owner, row.state.state = owner, OPEN
    row.state.rate.CopyFrom(rate)
    for part in (row.state.balance, row.state.unsettled):
        part.denom, part.amount = rate.denom, "0"
    row.state.withdrawn.CopyFrom(Coin(denom=rate.denom, amount="0"))
    _put_payment(ctx, row)


def withdraw(ctx: Context, xid: str, payment: str) -> bool:
    """Settle and pay out one payment; True if the funds are used up, which the caller must handle.

    Raises `escrow` 7 when the payment is not open, and panics as the node does when it was settled at this height.
    """
    if get_payment(ctx, xid, payment).state.state != OPEN:
        raise _PAYMENT_CLOSED()
    settled = settle(ctx, xid)
    if settled.overdrawn:
        return True
    row = next((row for row in settled.payments if row.id.xid == payment), None)
    if row is None:
        raise _lost_payment(xid, payment)
    _pay_out(ctx, row)
    _put_payment(ctx, row)
    return False


def _lost_payment(xid: str, payment: str) -> Refused:
    return panicked(f'couldn\'t find payment aid:<scope:deployment xid:"{xid}" > xid:"{payment}" ')


def close_payment(ctx: Context, xid: str, payment: str) -> bool:
    """Settle, pay out and close one payment (not if settled at this height); True if the funds are used up."""
    if get_account(ctx, DEPLOYMENT, xid).state.state != OPEN:
        return False
    settled = settle(ctx, xid)
    row = next((row for row in settled.payments if row.id.xid == payment), None)
    if not settled.overdrawn and row is not None:
        _finish(ctx, row)
    return settled.overdrawn


def _finish(ctx: Context, payment: Message) -> None:
    _pay_out(ctx, payment)
    payment.state.state = CLOSED
    _put_payment(ctx, payment)


def close_account(ctx: Context, scope: ids.Scope, xid: str) -> bool:
    """Pay all payments and return the rest; True if the funds of a deployment's account are used up."""
    account = get_account(ctx, scope, xid)
    if account.state.state != OPEN:
        raise ACCOUNT_CLOSED()
    if scope == DEPLOYMENT:
        settled = settle(ctx, xid)
        if settled.overdrawn:
            return True
        account = settled.account
        for payment in settled.payments:
            _finish(ctx, payment)
    account.state.settled_at = ctx.height
    _refund(ctx, account)
    account.state.state = CLOSED
    put_account(ctx, account)
    return False


def top_up(ctx: Context, account: Message, deposits: list[Message]) -> None:
    """Pay the debts of an overdrawn account. Once all are paid, the account closes and the excess is returned."""
    _collect(ctx, account, deposits)
    xid = account.id.xid
    debts = [copied(row) for _, row in ctx.state.items("escrow_payment", (xid,)) if row.state.state == OVERDRAWN]
    for payment in debts:
        _pay_debt(ctx, account, payment)
    if all(payment.state.state == CLOSED for payment in debts):
        account.state.state = CLOSED
        _refund(ctx, account)
    put_account(ctx, account)


def _pay_debt(ctx: Context, account: Message, payment: Message) -> None:
    denom, debt = payment.state.unsettled.denom, whole(payment.state.unsettled.amount)
    paid = min(debt, _available(account, denom))
    _spend(account, denom, paid)
    _transferred(account, denom, paid)
    payment.state.balance.amount = str(int(payment.state.balance.amount) + paid * PRECISION)
    payment.state.unsettled.amount = str((debt - paid) * PRECISION)
    _pay_out(ctx, payment)
    if paid == debt:
        payment.state.state = CLOSED
    _put_payment(ctx, payment)
