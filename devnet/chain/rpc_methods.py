"""The methods of CometBFT's RPC over the node, by name."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from devnet.chain import event_query
from devnet.chain.app import TxResult
from devnet.chain.blocks import NODE_VERSION, VALIDATOR, Block, result_json, tx_hash
from devnet.chain.errors import PANIC, QueryPanicked, QueryRefused
from devnet.chain.node import Node
from devnet.chain.query import METHODS, Transport, answer
from devnet.chain.query.akash import discovery_json
from devnet.chain.rpc_params import Kind, RpcError

__all__ = ["METHODS_BY_NAME", "AbciReply", "RpcMethod", "abci_query", "tx_values"]

Handler: TypeAlias = Callable[[Node, Mapping[str, Any]], Awaitable[Any]]
_COMMIT_S = 10.0
_SIMULATE = "/cosmos.tx.v1beta1.Service/Simulate"
_PER_PAGE = 30
_MAX_PER_PAGE = 100
_PRUNED = (
    "failed to load state at height {height}; version mismatch on immutable IAVL tree; version does not exist. "
    "Version has either been pruned, or is for a future block height (latest height: {latest}): not found"
)


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """A method; `params` in positional order with their kinds."""

    handle: Handler
    params: Mapping[str, Kind] = field(default_factory=dict)


def _block(node: Node, height: int | None) -> Block:
    """The height to answer. Raises the node's error for a missing height."""
    if height is None:
        height = node.height
    if height <= 0:
        raise RpcError(f"height must be greater than 0, but got {height}")
    if height > node.height:
        raise RpcError(f"height {height} must be less than or equal to the current blockchain height {node.height}")
    block = node.blocks.get(height)
    if block is None:
        raise RpcError(f"height {height} is not available, lowest height is {node.blocks.earliest}")
    return block


async def _health(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    return {}


async def _status(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    last = None if node.faults.before_first_block else node.blocks.last
    first = node.blocks.get(node.blocks.earliest)
    return {
        "node_info": {
            "protocol_version": {"p2p": "8", "block": "11", "app": "0"},
            "id": VALIDATOR["address"].lower(),  # type: ignore[attr-defined]
            "listen_addr": "tcp://127.0.0.1:0",
            "network": node.genesis.chain_id,
            "version": "0.38.19",
            "channels": "402021222330386061",
            "moniker": "devnode",
            "other": {"tx_index": "on", "rpc_address": "tcp://127.0.0.1:0"},
        },
        "sync_info": {**_sync("latest", last), **_sync("earliest", first), "catching_up": node.catching_up},
        "validator_info": VALIDATOR,
    }


def _sync(which: str, block: Block | None) -> dict[str, str]:
    header = block.header_json() if block else {"app_hash": "", "height": "0", "time": "0001-01-01T00:00:00Z"}
    return {
        f"{which}_block_hash": block.hash if block else "",
        f"{which}_app_hash": header["app_hash"],
        f"{which}_block_height": header["height"],
        f"{which}_block_time": header["time"],
    }


async def _abci_info(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    last = node.blocks.last
    app_hash = base64.b64encode(bytes.fromhex(last.next_app_hash)).decode() if last else ""
    info = {"data": "akash", "version": NODE_VERSION, "last_block_height": str(node.height)}
    return {"response": {**info, "last_block_app_hash": app_hash}}


async def _get_block(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    block = _block(node, params.get("height"))
    return {"block_id": block.id_json(), "block": block.json()}


async def _header(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"header": _block(node, params.get("height")).header_json()}


async def _commit(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    block = _block(node, params.get("height"))
    commit = {"height": str(block.height), "round": 0, "block_id": block.id_json(), "signatures": []}
    return {"signed_header": {"header": block.header_json(), "commit": commit}, "canonical": True}


async def _block_results(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    block = _block(node, params.get("height"))
    if block.height in node.faults.results_missing:
        raise RpcError(f"could not find results for height #{block.height}")
    return {
        "height": str(block.height),
        "txs_results": [result_json(result) for result in block.results] or None,
        "finalize_block_events": [event.to_json() for event in block.events],
        "validator_updates": None,
        "consensus_param_updates": None,
        "app_hash": base64.b64encode(bytes.fromhex(block.next_app_hash)).decode(),
    }


async def _validators(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    height = _block(node, params.get("height")).height
    return {
        "block_height": str(height),
        "validators": [{**VALIDATOR, "proposer_priority": "0"}],
        "count": "1",
        "total": "1",
    }


async def _net_info(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"listening": True, "listeners": [], "n_peers": "0", "peers": []}


async def _unconfirmed(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    count, size = str(len(node.pending)), str(sum(map(len, node.pending)))
    shown = [base64.b64encode(tx).decode() for tx in node.pending]
    return {"n_txs": count, "total": count, "total_bytes": size, "txs": shown}


async def _unconfirmed_count(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    return {**await _unconfirmed(node, params), "txs": None}


async def _abci_query(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    reply = abci_query(node, params.get("path", ""), params.get("data", b""), params.get("height", 0))
    response = {
        "code": reply.code,
        "log": reply.log,
        "info": "",
        "index": "0",
        "key": None,
        "value": base64.b64encode(reply.value).decode() if reply.value else None,
        "proofOps": None,
        "height": str(reply.height),
        "codespace": reply.codespace,
    }
    return {"response": response}


@dataclass(frozen=True, slots=True)
class AbciReply:
    """The answer to a query; `height` is its height, 0 without one."""

    code: int = 0
    log: str = ""
    value: bytes = b""
    height: int = 0

    @property
    def codespace(self) -> str:
        """The error, whose codespace is `sdk` except for panics (recorded corrections 5 and 14)."""
        return ("undefined" if self.code == PANIC else "sdk") if self.code else ""


def abci_query(node: Node, path: str, data: bytes, height: int) -> AbciReply:
    """A query by gRPC path, with the errors of the application interface (recorded correction 5)."""
    if height < 0:
        return AbciReply(18, "cannot query with height < 0; please provide a valid height: invalid request")
    if height > node.height:
        return AbciReply(26, "cannot query with height in the future; please provide a valid height: invalid height")
    if height and height < node.blocks.earliest:
        return AbciReply(38, _PRUNED.format(height=height, latest=node.height))
    if not path:
        return AbciReply(6, "no query path provided: unknown request")
    at = height or (0 if node.faults.before_first_block else node.height)
    if path == "/app/version":
        return AbciReply(value=NODE_VERSION.encode(), height=at)
    if path == "/cosmos.tx.v1beta1.Service/BroadcastTx":
        return AbciReply(18, "can't route a broadcast tx message: invalid request")
    if path == _SIMULATE and node.faults.before_first_block:
        return AbciReply(6, "negative decimal coin amount: -17.000000000000000000uact: unknown request")
    method = METHODS.get(path)
    if method is None or Transport.ABCI not in method.transports:
        return AbciReply(6, "unknown query path: unknown request")
    try:
        return AbciReply(value=answer(node.query(height), method, data), height=at)
    except QueryPanicked as panic:
        return AbciReply(*panic.abci())
    except QueryRefused as refused:
        code, log = refused.abci()
        return AbciReply(code, log, height=at)


async def _broadcast_sync(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    tx = _new_tx(node, params)
    result = node.submit(tx)
    return _broadcast_json(tx, result)


async def _broadcast_async(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    """Accept the transaction before the check (recorded correction 7)."""
    tx = _new_tx(node, params)
    node.submit(tx)
    return _broadcast_json(tx, TxResult())


def _new_tx(node: Node, params: Mapping[str, Any]) -> bytes:
    tx: bytes = params.get("tx", b"")
    if node.known(tx):
        raise RpcError("tx already exists in cache")
    return tx


def _broadcast_json(tx: bytes, result: TxResult) -> dict[str, Any]:
    body = {"code": result.code, "data": "", "log": result.log, "codespace": result.codespace}
    return {**body, "hash": tx_hash(tx)}


async def _broadcast_commit(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    tx = _new_tx(node, params)
    checked = node.submit(tx)
    answered = {
        "check_tx": _check_json(checked),
        "tx_result": result_json(TxResult()),
        "hash": tx_hash(tx),
        "height": "0",
    }
    if checked.code:
        return answered
    try:
        async with asyncio.timeout(_COMMIT_S):
            await node.wait_for_tx(tx)
    except TimeoutError:
        raise RpcError("timed out waiting for tx to be included in a block") from None
    found = node.blocks.tx(tx_hash(tx))
    if found is None:
        raise RpcError("tx not found")
    return {**answered, "tx_result": result_json(found[3]), "height": str(found[0])}


async def _check_tx(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    """Check a transaction on the check state, which it changes: a second time the same bytes fail (recorded
    correction 8).
    """
    return _check_json(node.app.check(params.get("tx", b"")))


def _check_json(result: TxResult) -> dict[str, Any]:
    body = result_json(result)
    return {**body, "data": None if result.code else ""}


async def _tx(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    wanted: bytes = params.get("hash", b"")
    if not wanted:
        raise RpcError("transaction hash cannot be empty")
    found = node.blocks.tx(wanted.hex())
    if found is None:
        raise RpcError(f"tx ({wanted.hex().upper()}) not found")
    return _tx_json(*found)


def _tx_json(height: int, index: int, tx: bytes, result: TxResult) -> dict[str, Any]:
    return {
        "hash": tx_hash(tx),
        "height": str(height),
        "index": index,
        "tx_result": result_json(result),
        "tx": base64.b64encode(tx).decode(),
    }


async def _tx_search(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    conditions = event_query.parse(params.get("query", ""))
    found = [row for row in node.blocks.txs() if event_query.matches(conditions, tx_values(row[0], row[2], row[3]))]
    if params.get("order_by") == "desc":
        found.reverse()
    size = min(params.get("per_page") or _PER_PAGE, _MAX_PER_PAGE)
    start = (max(params.get("page", 1), 1) - 1) * size
    return {"txs": [_tx_json(*row) for row in found[start : start + size]], "total_count": str(len(found))}


def tx_values(height: int, tx: bytes, result: TxResult) -> dict[str, list[str]]:
    """The composite keys by which queries find a transaction."""
    values = {"tx.height": [str(height)], "tx.hash": [tx_hash(tx)], "tm.event": ["Tx"]}
    for event in result.events:
        for key, value in event.attributes:
            values.setdefault(f"{event.type}.{key}", []).append(value)
    return values


async def _discovery(node: Node, params: Mapping[str, Any]) -> dict[str, Any]:
    return discovery_json(node.genesis.chain_id)


_AT: Mapping[str, Kind] = {"height": "int"}
_TX: Mapping[str, Kind] = {"tx": "bytes"}
METHODS_BY_NAME: dict[str, RpcMethod] = {
    "health": RpcMethod(_health),
    "status": RpcMethod(_status),
    "net_info": RpcMethod(_net_info),
    "abci_info": RpcMethod(_abci_info),
    "abci_query": RpcMethod(_abci_query, {"path": "str", "data": "hex", "height": "int", "prove": "bool"}),
    "block": RpcMethod(_get_block, _AT),
    "header": RpcMethod(_header, _AT),
    "commit": RpcMethod(_commit, _AT),
    "block_results": RpcMethod(_block_results, _AT),
    "validators": RpcMethod(_validators, _AT),
    "unconfirmed_txs": RpcMethod(_unconfirmed),
    "num_unconfirmed_txs": RpcMethod(_unconfirmed_count),
    "broadcast_tx_sync": RpcMethod(_broadcast_sync, _TX),
    "broadcast_tx_async": RpcMethod(_broadcast_async, _TX),
    "broadcast_tx_commit": RpcMethod(_broadcast_commit, _TX),
    "check_tx": RpcMethod(_check_tx, _TX),
    "tx": RpcMethod(_tx, {"hash": "bytes", "prove": "bool"}),
    "tx_search": RpcMethod(
        _tx_search, {"query": "str", "prove": "bool", "page": "int", "per_page": "int", "order_by": "str"}
    ),
    "akash": RpcMethod(_discovery),
}
