"""The state machine of the node: takes the transactions of each block, and returns results, events and state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
from cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData
from google.protobuf.any_pb2 import Any as Packed

from devnet.chain import ante, bank, bme, epochs, oracle
from devnet.chain.ante import Mode
from devnet.chain.context import Context
from devnet.chain.errors import Refused
from devnet.chain.events import Event, message_event
from devnet.chain.genesis import Genesis
from devnet.chain.messages import MESSAGES, signer_of
from devnet.chain.store import Branch, Store
from devnet.chain.tx import Tx, decode
from devnet.chain.wire import fill

__all__ = ["App", "TxResult"]

_MESSAGE_GAS = 12_000
_EVENT_GAS = 8_000
_UNLIMITED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class TxResult:
    """The result of a transaction in a block or a check. `data` is None unless it succeeded in a block."""

    code: int = 0
    codespace: str = ""
    log: str = ""
    data: bytes | None = None
    gas_wanted: int = 0
    gas_used: int = 0
    events: tuple[Event, ...] = ()


class App:
    """The state after the last committed block, and the state after the pending transactions."""

    def __init__(self, genesis: Genesis) -> None:
        self.genesis = genesis
        self.store = Store()
        self.height = 0
        self.time_ns = genesis.time_ns or 0
        state = Branch(self.store)
        bank.load_genesis(state, genesis)
        state.commit()
        self._pending = self._context(self.store)

    def _context(self, parent: Store | Branch, height: int | None = None, time_ns: int | None = None) -> Context:
        at, now = self.height if height is None else height, self.time_ns if time_ns is None else time_ns
        return Context(Branch(parent), self.genesis, at, now)

    def check(self, data: bytes) -> TxResult:
        """Check a transaction for the mempool on the pending state: its messages, then the ante chain."""
        ctx = self._pending.branch()
        gas = [0, 0]
        try:
            tx = decode(data)
            gas = [tx.auth.fee.gas_limit, ante.ante_gas(tx)]
            _check_messages(tx)
            ante.run(ctx, tx, Mode.CHECK)
        except Refused as refused:
            return _refusal(refused, gas[0], gas[1])
        ctx.state.commit()
        return TxResult(gas_wanted=gas[0], gas_used=gas[1], data=b"")

    def simulate(self, data: bytes) -> TxResult:
        """The result on the pending state, without signatures and fees. Raises `Refused`."""
        ctx = self._pending.branch()
        tx = decode(data)
        _check_before(tx)
        ante.run(ctx, tx, Mode.SIMULATE)
        result = self._execute(ctx, tx)
        return TxResult(data=result.data, gas_wanted=_UNLIMITED, gas_used=result.gas_used, events=result.events)

    def commit_block(self, height: int, time_ns: int, txs: Sequence[bytes]) -> tuple[list[TxResult], list[Event]]:
        """Run the transactions in order and commit; their results and the block's own events. Afterwards nothing is
        pending.
        """
        self.store.height = height
        block = self._context(self.store, height, time_ns)
        events = _own(block, "BeginBlock", epochs.begin_block)
        results = [self._deliver(block, data) for data in txs]
        events += _own(block, "EndBlock", bme.end_block, oracle.end_block)
        block.state.commit()
        self.height, self.time_ns = height, time_ns
        self._pending = self._context(self.store)
        return results, events

    def _deliver(self, block: Context, data: bytes) -> TxResult:
        outer = block.branch()
        try:
            tx = decode(data)
        except Refused as refused:
            return _refusal(refused, 0, 0)
        wanted, used = tx.auth.fee.gas_limit, ante.ante_gas(tx)
        try:
            _check_messages(tx)
            ante.run(outer, tx, Mode.DELIVER)
        except Refused as refused:
            return _refusal(refused, wanted, used)
        outer.state.commit()
        try:
            result = self._execute(outer, tx, limit=wanted)
        except Refused as refused:
            return _refusal(refused, wanted, min(used + _MESSAGE_GAS, wanted), outer.events)
        outer.state.commit()
        return result

    def _execute(self, ctx: Context, tx: Tx, *, limit: int = _UNLIMITED) -> TxResult:
        """Run all messages or none. Raises `Refused` for the first message that fails."""
        inner, responses = ctx.branch(), TxMsgData()
        for index, message in enumerate(tx.messages):
            happened, response = _handle(inner.branch(), message, index)
            inner.events += happened
            name = f"/{message.DESCRIPTOR.full_name}Response"
            responses.msg_responses.append(Packed(type_url=name, value=response))
        used = ante.ante_gas(tx) + _MESSAGE_GAS * len(tx.messages) + _EVENT_GAS * len(inner.events)
        if used > limit:
            raise ante.OUT_OF_GAS(f"out of gas in location: WriteFlat; gasWanted: {limit}, gasUsed: {used}")
        inner.state.commit()
        data = responses.SerializeToString()
        return TxResult(data=data, gas_wanted=limit, gas_used=used, events=(*ctx.events, *inner.events))


def _own(block: Context, mode: str, *steps: Callable[[Context], None]) -> list[Event]:
    """Run the modules' work at the beginning or end of a block."""
    ctx = block.branch()
    for step in steps:
        step(ctx)
    ctx.state.commit()
    return [event.with_attribute("mode", mode) for event in ctx.events]


def _handle(ctx: Context, message: Any, index: int) -> tuple[list[Event], bytes]:
    """Run one message; its events and its response."""
    type_url = f"/{message.DESCRIPTOR.full_name}"
    try:
        response = MESSAGES[type_url].handle(ctx, message)
    except Refused as refused:
        raise refused.in_message(index) from None
    ctx.state.commit()
    heading = message_event(type_url, signer_of(message))
    events = [event.with_attribute("msg_index", str(index)) for event in (heading, *ctx.events)]
    return events, b"" if response is None else fill(response).SerializeToString()


def _check_before(tx: Tx) -> None:
    try:
        _check_messages(tx)
    except Refused as refused:
        refused.located = False
        raise


def _check_messages(tx: Tx) -> None:
    for message in tx.messages:
        MESSAGES[f"/{message.DESCRIPTOR.full_name}"].check(message)


def _refusal(refused: Refused, wanted: int, used: int, events: Sequence[Event] = ()) -> TxResult:
    return TxResult(refused.code, refused.codespace, refused.log, None, wanted, used, tuple(events))
