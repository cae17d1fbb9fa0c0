"""Which block a transaction is in. `not found` proves nothing before the transaction's timeout height has passed."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

from provider.chain.connection import NodeClient
from provider.chain.rpc import RpcError
from provider.errors import ChainError

__all__ = ["Included", "find", "find_in_block", "has_no_index"]


@dataclass(frozen=True, slots=True)
class Included:
    """The result of a transaction in its block. `code` 0: all its messages took effect."""

    height: int
    code: int
    codespace: str
    log: str
    gas_used: int


async def find(node: NodeClient, hash_: str) -> Included | None:
    """The transaction's result, by the node's index; None when the index does not have it. Raises `ChainError`."""
    try:
        found = await node.call("tx", hash=base64.b64encode(bytes.fromhex(hash_)).decode(), prove=False)
    except RpcError as refusal:
        if "not found" in refusal.text:
            return None
        raise
    try:
        return _included(found)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ChainError(node.address, f"tx {hash_}: the answer cannot be read: {error}") from error


def has_no_index(problem: ChainError) -> bool:
    """Whether the node keeps no index of transactions, so that their blocks must be read."""
    return isinstance(problem, RpcError) and "indexing is disabled" in problem.text


async def find_in_block(node: NodeClient, hash_: str, height: int) -> Included | None:
    """As `find`, from the block itself. Raises `ChainError`, also for a height that the node does not have yet."""
    block = await node.call("block", height=str(height))
    try:
        raw = [base64.b64decode(tx, validate=True) for tx in block["block"]["data"]["txs"] or ()]
        places = [index for index, tx in enumerate(raw) if hashlib.sha256(tx).hexdigest().upper() == hash_]
        if not places:
            return None
        results = await node.call("block_results", height=str(height))
        return _included({"height": str(height), "tx_result": results["txs_results"][places[0]]})
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise ChainError(node.address, f"block {height}: the answer cannot be read: {error!r}") from error


def _included(found: dict[str, Any]) -> Included:
    result = found["tx_result"] if isinstance(found.get("tx_result"), dict) else {}
    height = int(found.get("height") or 0)
    if height <= 0 or not result:
        raise ValueError(f"the answer has height {height} and result {str(result)[:60]}")
    return Included(
        height=height,
        code=int(result.get("code") or 0),
        codespace=str(result.get("codespace") or ""),
        log=str(result.get("log") or ""),
        gas_used=int(result.get("gas_used") or 0),
    )
