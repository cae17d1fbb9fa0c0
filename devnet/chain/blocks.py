"""The blocks in memory, with their results and hashes.

The hashes link the blocks and change with every byte, but are not those of a real node.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from devnet.chain.app import TxResult
from devnet.chain.events import Event

__all__ = ["EMPTY_HASH", "NODE_VERSION", "VALIDATOR", "Block", "BlockStore", "result_json", "time_text", "tx_hash"]

EMPTY_HASH = hashlib.sha256(b"").hexdigest().upper()
NODE_VERSION = "2.1.0"
_VALIDATOR_KEY = hashlib.sha256(b"lessor devnet validator").digest()
VALIDATOR = {
    "address": hashlib.sha256(_VALIDATOR_KEY).hexdigest()[:40].upper(),
    "pub_key": {"type": "tendermint/PubKeyEd25519", "value": base64.b64encode(_VALIDATOR_KEY).decode()},
    "voting_power": "10000",
}
_BILLION = 10**9


def tx_hash(data: bytes) -> str:
    """The SHA-256 of the bytes as upper-case hex."""
    return hashlib.sha256(data).hexdigest().upper()


def time_text(time_ns: int) -> str:
    """The time as RFC 3339 with as many decimals as needed, as Go writes it."""
    seconds, fraction = divmod(time_ns, _BILLION)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    decimals = f"{fraction:09d}".rstrip("0")
    return f"{text}.{decimals}Z" if decimals else f"{text}Z"


@dataclass(frozen=True, slots=True)
class Block:
    """`previous` is the hash of the block before, empty for the first; `app_hash` is of the state before this block;
    `events` are the block's own, of no transaction.
    """

    chain_id: str
    height: int
    time_ns: int
    txs: tuple[bytes, ...]
    results: tuple[TxResult, ...]
    previous: str
    app_hash: str
    events: tuple[Event, ...] = ()

    @property
    def data_hash(self) -> str:
        return hashlib.sha256(b"".join(hashlib.sha256(tx).digest() for tx in self.txs)).hexdigest().upper()

    @property
    def hash(self) -> str:
        text = f"{self.chain_id}/{self.height}/{self.time_ns}/{self.previous}/{self.app_hash}/{self.data_hash}"
        return tx_hash(text.encode())

    @property
    def next_app_hash(self) -> str:
        """The hash of the state after this block."""
        codes = ",".join(f"{result.codespace}:{result.code}" for result in self.results)
        return tx_hash(f"{self.app_hash}/{self.data_hash}/{codes}".encode()) if self.txs else self.app_hash

    def id_json(self) -> dict[str, Any]:
        return _id_json(self.hash)

    def header_json(self) -> dict[str, Any]:
        return {
            "version": {"block": "11"},
            "chain_id": self.chain_id,
            "height": str(self.height),
            "time": time_text(self.time_ns),
            "last_block_id": _id_json(self.previous),
            "last_commit_hash": tx_hash(self.previous.encode()) if self.previous else EMPTY_HASH,
            "data_hash": self.data_hash,
            "validators_hash": tx_hash(_VALIDATOR_KEY),
            "next_validators_hash": tx_hash(_VALIDATOR_KEY),
            "consensus_hash": tx_hash(b"consensus"),
            "app_hash": self.app_hash,
            "last_results_hash": EMPTY_HASH,
            "evidence_hash": EMPTY_HASH,
            "proposer_address": VALIDATOR["address"],
        }

    def json(self) -> dict[str, Any]:
        return {
            "header": self.header_json(),
            "data": {"txs": [base64.b64encode(tx).decode() for tx in self.txs]},
            "evidence": {"evidence": []},
            "last_commit": {
                "height": str(self.height - 1),
                "round": 0,
                "block_id": _id_json(self.previous),
                "signatures": [],
            },
        }


def _id_json(block_hash: str) -> dict[str, Any]:
    parts = {"total": 1, "hash": tx_hash(block_hash.encode())} if block_hash else {"total": 0, "hash": ""}
    return {"hash": block_hash, "parts": parts}


def result_json(result: TxResult) -> dict[str, Any]:
    """A transaction's result as CometBFT's RPC writes it."""
    return {
        "code": result.code,
        "data": None if result.data is None else base64.b64encode(result.data).decode(),
        "log": result.log,
        "info": "",
        "gas_wanted": str(result.gas_wanted),
        "gas_used": str(result.gas_used),
        "events": [event.to_json() for event in result.events],
        "codespace": result.codespace,
    }


class BlockStore:
    """Blocks from `earliest` to `height`. Transactions of pruned blocks can still be found, as on a real node."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._txs: dict[str, tuple[int, int, bytes, TxResult]] = {}
        self.height = 0
        self.earliest = 1

    def add(self, block: Block) -> None:
        self._blocks[block.height] = block
        self.height = block.height
        for index, (tx, result) in enumerate(zip(block.txs, block.results, strict=True)):
            self._txs[tx_hash(tx)] = (block.height, index, tx, result)

    def get(self, height: int) -> Block | None:
        return self._blocks.get(height)

    @property
    def last(self) -> Block | None:
        return self._blocks.get(self.height)

    def tx(self, hash_hex: str) -> tuple[int, int, bytes, TxResult] | None:
        """(height, index, bytes, result) of a committed transaction."""
        return self._txs.get(hash_hex.upper())

    def txs(self) -> Iterator[tuple[int, int, bytes, TxResult]]:
        """All committed transactions in order."""
        return iter(self._txs.values())

    def prune(self, below: int) -> None:
        """Remove the blocks below a height."""
        for height in [height for height in self._blocks if height < below]:
            del self._blocks[height]
        self.earliest = max(self.earliest, min(below, self.height))
