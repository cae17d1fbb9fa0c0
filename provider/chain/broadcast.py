"""Transactions: one serial queue a key up to the node's mempool, then each waits for its own block (chain.md §10).

Only keys and the assembly of transactions come from cosmpy; gas, sequence, sending and waiting are ours. Several
transactions may be
in flight with consecutive sequences: a node took 240 of them, in order, in one block (recordings/chain README,
"Measured").
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from cosmos.tx.v1beta1 import service_pb2
from cosmpy.aerial.coins import Coin as CosmpyCoin
from cosmpy.aerial.tx import SigningCfg, Transaction, TxFee

from provider.chain import queries
from provider.chain.keys import SigningKey
from provider.chain.model import Head, Message, TxResult
from provider.chain.rpc import QueryError, RpcClient, RpcError
from provider.errors import CatchingUp, ChainError, TxRefused
from provider.protocols import Clock
from provider.units import Coin

__all__ = ["Broadcaster", "Fees"]

_log = structlog.get_logger(__name__)
_MISMATCH = re.compile(r"account sequence mismatch, expected (\d+), got (\d+)")
_WRONG_SEQUENCE = ("sdk", 32)
_IN_CACHE = ("sdk", 19)
_SIMULATE = "/cosmos.tx.v1beta1.Service/Simulate"


@dataclass(frozen=True, slots=True)
class Fees:
    """fee = ceil(gas × price); gas = ceil(simulated × adjustment)."""

    price: Coin
    adjustment: float

    def gas(self, used: int) -> int:
        return math.ceil(used * self.adjustment)

    def fee(self, gas: int) -> int:
        return math.ceil(gas * self.price.amount)


class Broadcaster:
    """Sends for one key through one node."""

    def __init__(self, rpc: RpcClient, key: SigningKey, *, clock: Clock, fees: Fees, timeout: float) -> None:
        self._rpc = rpc
        self._key = key
        self._clock = clock
        self._fees = fees
        self._timeout = timeout
        self._queue = asyncio.Lock()
        self._number = 0
        self._sequence: int | None = None

    async def broadcast(self, messages: Sequence[Message], head: Head) -> TxResult:
        """Simulate, sign, send, and wait for the block. Raises `TxRefused`, or `ChainError` when the outcome is
        unknown.
        """
        if head.catching_up:
            raise CatchingUp(self._rpc.address, f"is catching up at height {head.height}; nothing is sent through it")
        async with self._queue:
            digest, fee = await self._send_with_retry(messages, head.chain_id)
        return await self._included(digest, fee)

    async def _send_with_retry(self, messages: Sequence[Message], chain_id: str) -> tuple[str, int]:
        try:
            return await self._send(messages, chain_id)
        except TxRefused as refusal:
            if not self._is_sequence_mismatch(refusal):
                raise
            await self._repair_sequence(refusal)
            return await self._send(messages, chain_id)

    async def _send(self, messages: Sequence[Message], chain_id: str) -> tuple[str, int]:
        if self._sequence is None:
            await self._read_account()
        gas = self._fees.gas(await self._simulate(messages, chain_id))
        fee = self._fees.fee(gas)
        raw = self._signed(messages, chain_id, gas=gas, fee=fee)
        await self._submit(raw)
        self._sequence = (self._sequence or 0) + 1
        return hashlib.sha256(raw).hexdigest().upper(), fee

    async def _read_account(self) -> None:
        found = await queries.account(self._rpc, self._key.address)
        if found is None:
            text = f"account {self._key.address} does not exist; send it some {self._fees.price.denom} first"
            raise ChainError(self._rpc.address, text)
        self._number, self._sequence = found.number, found.sequence

    async def _repair_sequence(self, refusal: TxRefused) -> None:
        """The node names the sequence it expects, mempool included; the account query knows only committed ones."""
        expected = _MISMATCH.search(refusal.log)
        _log.warning("chain.sequence_mismatch", node=self._rpc.address, ours=self._sequence, problem=refusal.log[:120])
        await self._read_account()
        if expected:
            self._sequence = int(expected[1])

    def _is_sequence_mismatch(self, refusal: TxRefused) -> bool:
        return (refusal.codespace, refusal.code) == _WRONG_SEQUENCE or "account sequence mismatch" in refusal.log

    def _signed(self, messages: Sequence[Message], chain_id: str, *, gas: int, fee: int) -> bytes:
        transaction = Transaction()
        for message in messages:
            transaction.add_message(message)
        signing = SigningCfg.direct(self._key.private.public_key, self._sequence or 0)
        transaction.seal(signing, TxFee(amount=[CosmpyCoin(fee, self._fees.price.denom)], gas_limit=gas))
        transaction.sign(self._key.private, chain_id, self._number)
        return bytes(transaction.complete().tx.SerializeToString())

    async def _simulate(self, messages: Sequence[Message], chain_id: str) -> int:
        """Gas used. A refusal carries the module's text but never its code (recordings/chain README §5)."""
        request = service_pb2.SimulateRequest(tx_bytes=self._signed(messages, chain_id, gas=0, fee=0))
        try:
            answer = await self._rpc.query(_SIMULATE, request.SerializeToString())
        except QueryError as refusal:
            raise TxRefused(
                self._rpc.address, codespace=refusal.codespace, code=refusal.code, log=refusal.log
            ) from refusal
        return int(service_pb2.SimulateResponse.FromString(answer.value).gas_info.gas_used)

    async def _submit(self, raw: bytes) -> None:
        try:
            result = await self._rpc.call("broadcast_tx_sync", tx=base64.b64encode(raw).decode())
        except RpcError as refusal:
            if "tx already exists in cache" in refusal.text:
                return
            raise
        code, codespace = int(result.get("code") or 0), str(result.get("codespace") or "")
        if code and (codespace, code) != _IN_CACHE:
            raise TxRefused(self._rpc.address, codespace=codespace, code=code, log=str(result.get("log") or ""))

    async def _included(self, digest: str, fee: int) -> TxResult:
        deadline = self._clock.monotonic() + self._timeout
        pause = 0.1
        while self._clock.monotonic() < deadline:
            await self._clock.sleep(pause)
            pause = min(1.0, pause * 1.5)
            found = await self._find(digest)
            if found is not None:
                return self._outcome(digest, fee, found)
        self._sequence = None  # it may never be included: ask again before the next one
        raise ChainError(
            self._rpc.address, f"transaction {digest} was accepted but is in no block after {self._timeout:g} s"
        )

    async def _find(self, digest: str) -> dict[str, Any] | None:
        try:
            return await self._rpc.call("tx", hash=base64.b64encode(bytes.fromhex(digest)).decode(), prove=False)
        except RpcError as refusal:
            if "not found" in refusal.text:
                return None
            raise

    def _outcome(self, digest: str, fee: int, found: dict[str, Any]) -> TxResult:
        result = found.get("tx_result") or {}
        code = int(result.get("code") or 0)
        if code:
            codespace, log = str(result.get("codespace") or ""), str(result.get("log") or "")
            raise TxRefused(self._rpc.address, codespace=codespace, code=code, log=log)
        gas = int(result.get("gas_used") or 0)
        return TxResult(
            hash=digest, height=int(found.get("height") or 0), gas_used=gas, fee=f"{fee}{self._fees.price.denom}"
        )
