"""The node: mempool, block production, queries at a height, and listeners for blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from devnet.chain.app import App, TxResult
from devnet.chain.blocks import EMPTY_HASH, Block, BlockStore, tx_hash
from devnet.chain.faults import Faults
from devnet.chain.genesis import Genesis
from devnet.chain.journal import Journal
from devnet.chain.query import Query
from devnet.chain.store import View

__all__ = ["Node"]

_ALREADY = TxResult(19, "sdk")


class Node:
    """A node with one validator and so without consensus."""

    def __init__(self, genesis: Genesis, folder: Path | None = None) -> None:
        self.genesis = genesis
        self.faults = Faults()
        self.blocks = BlockStore()
        self.app = App(genesis)
        self.listeners: list[Callable[[Block], None]] = []
        self._mempool: list[bytes] = []
        self._seen: set[str] = set()
        self._committed = asyncio.Condition()
        self._journal = Journal(folder, genesis) if folder else None
        if self._journal:
            for height, time_ns, txs in self._journal.blocks():
                self.replay(height, time_ns, txs)

    @property
    def height(self) -> int:
        return self.blocks.height

    @property
    def pending(self) -> tuple[bytes, ...]:
        """The transactions that wait for a block."""
        return tuple(self._mempool)

    @property
    def catching_up(self) -> bool:
        return self.faults.catching_up

    def known(self, tx: bytes) -> bool:
        """Whether the mempool has received the same bytes before, in earlier blocks too (correction 7)."""
        return tx_hash(tx) in self._seen

    def submit(self, tx: bytes) -> TxResult:
        """Check a transaction, and queue it if it passes."""
        result = self.app.check(tx)
        if result.code == 0:
            self._seen.add(tx_hash(tx))
            self._mempool.append(tx)
        return result

    def broadcast(self, tx: bytes) -> TxResult:
        """Submit a transaction as the gRPC service does, which refuses a known one."""
        return _ALREADY if self.known(tx) else self.submit(tx)

    def simulate(self, tx: bytes) -> TxResult:
        return self.app.simulate(tx)

    def query(self, height: int = 0) -> Query:
        """The view of the state at a height; 0 is the latest."""
        at = height or self.height
        return Query(View(self.app.store, at), at, self.genesis, self)

    async def produce(self) -> Block:
        """Commit all pending transactions in a block and notify the listeners."""
        txs, self._mempool = self._mempool, []
        last = self.blocks.last
        now = max(self.genesis.time_ns or 0, time.time_ns(), last.time_ns + 1 if last else 0)
        block = self.replay(self.height + 1, now, txs)
        if self._journal:
            self._journal.append(block.height, block.time_ns, block.txs)
        async with self._committed:
            self._committed.notify_all()
        for listener in list(self.listeners):
            listener(block)
        return block

    def replay(self, height: int, time_ns: int, txs: list[bytes]) -> Block:
        """Commit the given block without a notification."""
        last = self.blocks.last
        results, events = self.app.commit_block(height, time_ns, txs)
        block = Block(
            chain_id=self.genesis.chain_id,
            height=height,
            time_ns=time_ns,
            txs=tuple(txs),
            results=tuple(results),
            previous=last.hash if last else "",
            app_hash=last.next_app_hash if last else EMPTY_HASH,
            events=tuple(events),
        )
        self._seen.update(tx_hash(tx) for tx in txs)
        self.blocks.add(block)
        return block

    async def wait_for_height(self, height: int) -> None:
        async with self._committed:
            await self._committed.wait_for(lambda: self.height >= height)

    async def wait_for_tx(self, tx: bytes) -> None:
        async with self._committed:
            await self._committed.wait_for(lambda: self.blocks.tx(tx_hash(tx)) is not None)

    def close(self) -> None:
        if self._journal:
            self._journal.close()
