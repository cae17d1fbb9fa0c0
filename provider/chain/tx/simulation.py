"""Simulation: which intents would pass together, and with how much gas, before any fee is at stake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cosmos.tx.v1beta1 import service_pb2
from google.protobuf.message import DecodeError

from provider.chain.connection import NodeClient
from provider.chain.rpc import QueryError
from provider.chain.tx.intents import Intent
from provider.chain.tx.refusals import failing_message
from provider.errors import ChainError, TxRefused
from provider.protocols.chain import Message

__all__ = ["Priced", "passing", "simulate"]

_PATH = "/cosmos.tx.v1beta1.Service/Simulate"
_MAX_GAS = 10**12
_NO_BLOCK = "negative decimal coin amount"


@dataclass(frozen=True, slots=True)
class Priced:
    """Intents that pass together, and the gas that they used."""

    intents: tuple[Intent, ...]
    gas_used: int

    @property
    def messages(self) -> list[Message]:
        return [message for intent in self.intents for message in intent.messages]

    @property
    def gas_factor(self) -> float:
        return max(intent.gas_factor for intent in self.intents)


AskGas: TypeAlias = Callable[[Sequence[Message]], Awaitable[int]]
Refuse: TypeAlias = Callable[[Intent, TxRefused], Awaitable[None]]


async def simulate(node: NodeClient, raw: bytes) -> int:
    """The gas used. Raises `TxRefused` with the module's text, never with its code (recordings/chain README §5), and
    `ChainError` for a node that has no block yet: it simulates at height 0, where every account looks settled in the
    future.
    """
    request = service_pb2.SimulateRequest(tx_bytes=raw)
    try:
        answer = await node.query(_PATH, request.SerializeToString())
    except QueryError as refusal:
        if _NO_BLOCK in refusal.log:
            raise ChainError(node.address, f"simulate: the node has no block yet: {refusal.log}") from refusal
        raise TxRefused(node.address, codespace=refusal.codespace, code=refusal.code, log=refusal.log) from refusal
    try:
        used = int(service_pb2.SimulateResponse.FromString(answer.value).gas_info.gas_used)
    except DecodeError as error:
        raise ChainError(node.address, f"simulate: the answer cannot be read: {error}") from error
    if not 0 < used < _MAX_GAS:
        raise ChainError(node.address, f"simulate: {used} gas is not plausible")
    return used


async def passing(batch: tuple[Intent, ...], *, ask: AskGas, refuse: Refuse) -> list[Priced]:
    """The intents that pass, in as few transactions as possible; `refuse` is called for each intent that fails.

    The intent behind a refusal that names no message (a panic, a malformed message) is found by halving.
    """
    while batch:
        try:
            used = await ask([message for intent in batch for message in intent.messages])
        except TxRefused as refusal:
            if len(batch) == 1:
                await refuse(batch[0], refusal)
                return []
            index = failing_message(refusal)
            if index is None or index >= len(batch):
                middle = len(batch) // 2
                first = await passing(batch[:middle], ask=ask, refuse=refuse)
                return first + await passing(batch[middle:], ask=ask, refuse=refuse)
            await refuse(batch[index], refusal)
            batch = (*batch[:index], *batch[index + 1 :])
        else:
            return [Priced(batch, used)]
    return []
