"""Handing a signed transaction to the node's mempool."""

from __future__ import annotations

import base64
from enum import Enum, auto

from provider.chain.rpc import RpcError
from provider.chain.tx.node import Node
from provider.chain.tx.refusals import already_known
from provider.errors import ChainError, TxRefused

__all__ = ["Answer", "submit"]


class Answer(Enum):
    """`TAKEN`: it is in the mempool. `UNSURE`: no answer came; it may be there."""

    TAKEN = auto()
    UNSURE = auto()


async def submit(node: Node, raw: bytes) -> Answer:
    """Raises `TxRefused` when the node's check says no, `RpcError` when the node takes nothing at all."""
    try:
        result = await node.call("broadcast_tx_sync", tx=base64.b64encode(raw).decode())
    except RpcError as refusal:
        if already_known(refusal):
            return Answer.TAKEN
        raise
    except ChainError:
        return Answer.UNSURE
    try:
        code, codespace, log = int(result.get("code") or 0), str(result.get("codespace") or ""), result.get("log")
    except (TypeError, ValueError, OverflowError):
        return Answer.UNSURE
    if not code:
        return Answer.TAKEN
    refused = TxRefused(node.address, codespace=codespace, code=code, log=str(log or ""))
    if already_known(refused):
        return Answer.TAKEN
    raise refused
