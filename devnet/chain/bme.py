"""Burning ACT for AKT (module `bme`, chain.md §4.6), as far as it was recorded.

Nothing backs the ACT of this chain's genesis, and the vault is filled by governance only, so the collateral ratio is 0:
with a price the status is `halt_cr`, where ACT may be burned but not minted, and without one `halt_oracle`. Canceled
records and mints were not recorded and are not simulated.
"""

from __future__ import annotations

from akash.bme.v1 import event_pb2 as events
from akash.bme.v1.msg_pb2 import MsgBurnACTResponse
from akash.bme.v1.query_pb2 import QueryLedgerRecordEntry
from akash.bme.v1.types_pb2 import CoinPrice, LedgerRecord, LedgerRecordStatus, MintStatus
from cosmos.base.v1beta1.coin_pb2 import Coin

from devnet.chain import bank, oracle
from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.keys import module_address, valid_address
from devnet.chain.store import Reader
from devnet.chain.wire import PRECISION, Message, dec_wire, positive

__all__ = ["EPOCH_BLOCKS", "MIN_MINT", "end_block", "handle_burn", "handle_mint", "status_of", "total"]

EPOCH_BLOCKS = 10
MIN_MINT = 10_000_000
_MODULE = module_address("bme")
_HALTED = Kind("bme", 6, "circuit breaker is active")
_INVALID_ADDRESS = Kind("sdk", 7, "invalid address")
_INVALID_COINS = Kind("sdk", 10, "invalid coins")
_PENDING = LedgerRecordStatus.ledger_record_status_pending
_EXECUTED = LedgerRecordStatus.ledger_record_status_executed


def status_of(state: Reader) -> int:
    """The `MintStatus` at the end of the last block; before the first block that of an empty vault."""
    return state.get("bme_status", ()) or int(MintStatus.mint_status_halt_cr)


def total(state: Reader, what: str, denom: str) -> int:
    """The total `burned` or `minted` amount of a denomination."""
    return state.get("bme_total", (what, denom)) or 0


def handle_mint(ctx: Context, msg: Message) -> None:
    """`MsgMintACT`: always refused, because the collateral is 0."""
    raise _HALTED()


def handle_burn(ctx: Context, msg: Message) -> Message:
    """`MsgBurnACT`: takes the coins at once; the AKT comes with the next epoch."""
    if status_of(ctx.state) != MintStatus.mint_status_halt_cr:
        raise _HALTED()
    coin = msg.coins_to_burn
    if not valid_address(msg.to):
        raise _INVALID_ADDRESS(f"{msg.to[:60]!r}")
    if coin.denom != "uact" or not positive(coin.amount):
        raise _INVALID_COINS(f"{coin.amount[:60]}{coin.denom}")
    bank.send(ctx, msg.owner, _MODULE, {coin.denom: int(coin.amount)})
    row = QueryLedgerRecordEntry(status=_PENDING)
    row.id.denom, row.id.to_denom, row.id.source, row.id.height = "uact", "uakt", msg.owner, ctx.height
    row.id.sequence = 1 + sum(1 for _ in ctx.state.items("bme_record", (ctx.height,)))
    row.pending_record.owner, row.pending_record.to, row.pending_record.denom_to_mint = msg.owner, msg.to, "uakt"
    row.pending_record.coins_to_burn.CopyFrom(coin)
    ctx.put("bme_record", ctx.height, row.id.sequence, value=row)
    return MsgBurnACTResponse(id=row.id)


def end_block(ctx: Context) -> None:
    """Update the status with the price of the block before; then, every tenth block, execute the pending burns."""
    before = status_of(ctx.state)
    now = int(MintStatus.mint_status_halt_cr if oracle.price(ctx) else MintStatus.mint_status_halt_oracle)
    if now != before:
        ctx.put("bme_status", value=now)
        names = MintStatus.Name(before), MintStatus.Name(now)
        ctx.emit(events.EventMintStatusChange(previous_status=names[0], new_status=names[1], collateral_ratio="0"))
    if ctx.height % EPOCH_BLOCKS == 0 and oracle.price(ctx):
        for key, row in list(ctx.state.items("bme_record")):
            if row.status == _PENDING:
                ctx.put("bme_record", *key, value=_execute(ctx, row))


def _execute(ctx: Context, row: Message) -> Message:
    pending, price = row.pending_record, oracle.price(ctx)
    burned, minted = int(pending.coins_to_burn.amount), int(pending.coins_to_burn.amount) * PRECISION // price
    bank.burn(ctx, _MODULE, "uact", burned)
    bank.mint(ctx, pending.to, "uakt", minted)
    for what, denom, amount in (("burned", "uact", burned), ("minted", "uakt", minted)):
        ctx.put("bme_total", what, denom, value=total(ctx.state, what, denom) + amount)
    parts = {
        "burned_from": pending.owner,
        "minted_to": pending.to,
        "burner": "bme",
        "minter": "bme",
        "burned": CoinPrice(coin=pending.coins_to_burn, price=dec_wire(1)),
        "minted": CoinPrice(coin=Coin(denom="uakt", amount=str(minted)), price=str(price)),
        "spread": Coin(denom="uakt", amount="0"),
    }
    ctx.emit(events.EventLedgerRecordExecuted(id=row.id, **parts))
    return QueryLedgerRecordEntry(id=row.id, status=_EXECUTED, executed_record=LedgerRecord(**parts))
