"""Transactions that were sent and whose end is not known: each is looked up until a block has it, or until none can.

Nothing in such a transaction is sent a second time in another one. Its own bytes may be sent again at any time: the
chain takes them once, so a node that lost its mempool costs a few seconds and never a second bid.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import structlog

from provider.chain.connection import AskHead, NodeClient
from provider.chain.tx.inclusion import Included, find, find_in_block, has_no_index
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import SentTx
from provider.errors import ChainError
from provider.protocols import Clock
from provider.waits import GrowingPause

__all__ = ["PendingTransaction", "PendingTransactions"]

_log = structlog.get_logger(__name__)
_PAUSE = GrowingPause(first=0.1, longest=1.0, factor=1.5)
_RESUBMIT_S = 10.0
_HEAD_S = 1.0
_MAX_WINDOW_BLOCKS = 1000
_LATE_CHECKS = 3
"""Checks after the timeout height before a transaction counts as lapsed: behind one address may be several nodes, and a
node indexes transactions a moment after their block."""


@dataclass(eq=False, slots=True)
class PendingTransaction:
    """`raw`: the signed bytes, empty for a transaction of an earlier process, which did not keep them. `accepted`: the
    node confirmed that it has the transaction. `read_up_to`: the last block that was searched for the transaction,
    where a node has no index.
    """

    tx: SentTx
    intents: tuple[Intent, ...]
    raw: bytes = b""
    accepted: bool = True
    read_up_to: int = 0


Ended = Callable[[PendingTransaction, Included | None], Awaitable[None]]
"""Called once a transaction with its result, or with None when it is proved to be in no block."""


class PendingTransactions:
    """Watches every transaction until its end is known."""

    def __init__(
        self,
        node: NodeClient,
        *,
        head: AskHead,
        clock: Clock,
        ended: Ended,
        freed: Callable[[], object] = lambda: None,
        window: int = _MAX_WINDOW_BLOCKS,
    ) -> None:
        """`freed` is called when a deployment may be settled again. `window`: blocks before its timeout height in which
        a transaction may be.
        """
        self._node = node
        self._head = head
        self._clock = clock
        self._ended = ended
        self._freed = freed
        self._window = window
        self._settled: dict[str, int] = {}
        self._higher_block: asyncio.Task[None] | None = None
        self._tasks: dict[PendingTransaction, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """The number of transactions that this process sent."""
        return sum(bool(pending.raw) for pending in self._tasks)

    @property
    def settling(self) -> set[str]:
        """Deployments (`owner/dseq`) whose escrow one of the transactions settles, and those that were settled in the
        node's last block.
        """
        return {deployment for pending in self._tasks for deployment in pending.tx.settles} | self._settled.keys()

    @property
    def any_unsure(self) -> bool:
        """Whether the node did not confirm that it has one of the transactions."""
        return any(not pending.accepted or not pending.raw for pending in self._tasks)

    def watch(self, pending: PendingTransaction) -> None:
        for intent in pending.intents:
            intent.tx_hash = pending.tx.hash
        self._tasks[pending] = asyncio.create_task(self._watch(pending), name=f"transaction {pending.tx.hash[:8]}")

    def settled(self, deployments: Iterable[str], *, height: int) -> None:
        """The escrow of `deployments` was settled at `height`. The node simulates at the height of its last block, and
        a second settlement at one height fails ("couldn't find payment"), so the next one waits for a higher block.
        """
        for deployment in deployments:
            self._settled[deployment] = max(height, self._settled.get(deployment, 0))
        if self._settled and (self._higher_block is None or self._higher_block.done()):
            self._higher_block = asyncio.create_task(self._wait_for_higher_block(), name="settlements")

    async def _wait_for_higher_block(self) -> None:
        misses = 0
        while self._settled:
            misses += 1
            await self._clock.sleep(_PAUSE.after(misses))
            try:
                height = (await self._head()).height
            except ChainError as error:
                _log.debug("chain.height_unknown", problem=str(error))
                continue
            below = [deployment for deployment, at in self._settled.items() if at < height]
            for deployment in below:
                del self._settled[deployment]
            if below:
                misses = 0
                self._freed()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        if self._higher_block is not None:
            tasks.append(self._higher_block)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _watch(self, pending: PendingTransaction) -> None:
        included = await self._result(pending)
        if included is not None:
            self.settled(pending.tx.settles, height=included.height)
        del self._tasks[pending]
        ending = asyncio.ensure_future(self._ended(pending, included))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)  # a known end is delivered and written down, also when `close` comes meanwhile

    async def _result(self, pending: PendingTransaction) -> Included | None:
        """Look the transaction up until its end is known; None when it is in no block."""
        misses, late = 0, 0
        resubmit_at = self._clock.monotonic() + _RESUBMIT_S
        head_at = self._clock.monotonic() + _HEAD_S
        while True:
            misses += 1
            await self._clock.sleep(_PAUSE.after(misses))
            try:
                found = await self._find(pending)
                if found is not None:
                    return found
                now = self._clock.monotonic()
                if now >= head_at:
                    head_at = now + _HEAD_S
                    late = late + 1 if await self._is_late(pending) else 0
                    if late >= _LATE_CHECKS:
                        return None
                if now >= resubmit_at and not late:
                    resubmit_at = now + _RESUBMIT_S
                    await self._resubmit(pending)
            except ChainError as error:
                _log.debug("chain.transaction_not_looked_up", hash=pending.tx.hash, problem=str(error))

    async def _find(self, pending: PendingTransaction) -> Included | None:
        try:
            return await find(self._node, pending.tx.hash)
        except ChainError as error:
            if not has_no_index(error):
                raise
        newest = min((await self._head()).height, pending.tx.timeout_height)
        window = self._window if pending.raw else _MAX_WINDOW_BLOCKS  # an earlier process may have had another setting
        first = max(pending.read_up_to, pending.tx.timeout_height - window, 0) + 1
        for height in range(first, newest + 1):
            found = await find_in_block(self._node, pending.tx.hash, height)
            if found is not None:
                return found
            pending.read_up_to = height
        return None

    async def _is_late(self, pending: PendingTransaction) -> bool:
        """Whether the timeout height lies one block back: a node may know a block before it has indexed it."""
        head = await self._head()
        return not head.catching_up and head.height > pending.tx.timeout_height + 1

    async def _resubmit(self, pending: PendingTransaction) -> None:
        if pending.raw:
            _log.info("chain.transaction_resubmitted", hash=pending.tx.hash, timeout_height=pending.tx.timeout_height)
            await self._node.call("broadcast_tx_sync", tx=base64.b64encode(pending.raw).decode())
