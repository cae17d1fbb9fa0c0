"""Accounts and balances (`cosmos.auth`, `cosmos.bank`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.events import transfer_events
from devnet.chain.genesis import BANK_MODULES, Genesis
from devnet.chain.keys import module_address, valid_address
from devnet.chain.store import Branch, Reader
from devnet.chain.wire import Message

__all__ = [
    "FEE_COLLECTOR",
    "Account",
    "account",
    "balance",
    "balances",
    "burn",
    "coins_text",
    "ensure_account",
    "handle_send",
    "load_genesis",
    "mint",
    "save_account",
    "send",
]

FEE_COLLECTOR = module_address("fee_collector")
INSUFFICIENT = Kind("sdk", 5, "insufficient funds")
SEND_DISABLED = Kind("bank", 5, "send transactions are disabled")
_INVALID_COINS = Kind("sdk", 10, "invalid coins")
_INVALID_ADDRESS = Kind("sdk", 7, "invalid address")
_NOT_SENDABLE = ("uact",)
"""Denominations that only escrow and modules can move (chain.md §4.6)."""


@dataclass(frozen=True, slots=True)
class Account:
    """`public_key` is empty until the account has signed. `kind`: as in `GenesisAccount`."""

    address: str
    number: int
    sequence: int = 0
    public_key: bytes = b""
    kind: str = ""


def load_genesis(state: Branch, genesis: Genesis) -> None:
    """Create the accounts in order. Those without a number get the lowest free number; module accounts come last."""
    rows = {row.address: row for row in genesis.accounts}
    taken = {row.number for row in rows.values() if row.number is not None}
    free = (number for number in range(genesis.next_account_number) if number not in taken)
    for row in rows.values():
        number = next(free) if row.number is None else row.number
        state.set("account", (row.address,), Account(row.address, number, row.sequence, row.public_key, row.kind))
        for denom, amount in row.balances.items():
            state.set("balance", (row.address, denom), amount)
    for name in BANK_MODULES:
        if module_address(name) not in rows:
            state.set("account", (module_address(name),), Account(module_address(name), next(free)))
    state.set("next_account", (), genesis.next_account_number)


def account(state: Reader, address: str) -> Account | None:
    found: Account | None = state.get("account", (address,))
    return found


def save_account(ctx: Context, row: Account) -> None:
    ctx.put("account", row.address, value=row)


def ensure_account(ctx: Context, address: str) -> None:
    if account(ctx.state, address) is None:
        number = ctx.get("next_account")
        ctx.put("next_account", value=number + 1)
        save_account(ctx, Account(address, number))


def balance(state: Reader, address: str, denom: str) -> int:
    return state.get("balance", (address, denom)) or 0


def balances(state: Reader, address: str) -> dict[str, int]:
    """Non-zero balances, sorted by denomination."""
    return {key[1]: amount for key, amount in state.items("balance", (address,)) if amount}


def coins_text(coins: Mapping[str, int]) -> str:
    return ",".join(f"{amount}{denom}" for denom, amount in sorted(coins.items()))


def send(ctx: Context, sender: str, recipient: str, coins: Mapping[str, int]) -> None:
    """Move coins and emit the events. Raises `sdk` 5, without moving any, if the sender has too few."""
    for denom, amount in sorted(coins.items()):
        held = balance(ctx.state, sender, denom)
        if held < amount:
            raise INSUFFICIENT(f"spendable balance {held}{denom} is smaller than {amount}{denom}")
    for denom, amount in coins.items():
        _add(ctx, sender, denom, -amount)
        _add(ctx, recipient, denom, amount)
    ensure_account(ctx, recipient)
    ctx.events += transfer_events(sender, recipient, coins_text(coins))


def _add(ctx: Context, address: str, denom: str, amount: int) -> None:
    ctx.put("balance", address, denom, value=balance(ctx.state, address, denom) + amount)


def burn(ctx: Context, address: str, denom: str, amount: int) -> None:
    """Remove coins of an address."""
    _add(ctx, address, denom, -amount)


def mint(ctx: Context, address: str, denom: str, amount: int) -> None:
    """Add new coins to an address."""
    _add(ctx, address, denom, amount)
    ensure_account(ctx, address)


def handle_send(ctx: Context, msg: Message) -> None:
    """`cosmos.bank.v1beta1.MsgSend`."""
    coins = _valid_coins(msg.amount)
    for address in (msg.from_address, msg.to_address):
        if not valid_address(address):
            raise _INVALID_ADDRESS(f"invalid address {address!r}")
    for denom in coins:
        if denom in _NOT_SENDABLE:
            raise SEND_DISABLED(f"{denom} transfers are currently disabled")
    send(ctx, msg.from_address, msg.to_address, coins)


def _valid_coins(rows: Iterable[Message]) -> dict[str, int]:
    rows = list(rows)
    coins = {row.denom: int(row.amount) for row in rows if row.denom and row.amount.isdigit() and int(row.amount) > 0}
    if not coins or len(coins) != len(rows):
        raise _INVALID_COINS(",".join(f"{row.amount}{row.denom}" for row in rows))
    return coins
