"""Transactions on their way: each is looked up until a block has it, or until none can have it any more.

Nothing in one is sent again before that. What may be sent again at any time are its very bytes: the chain takes them
once, so a node that lost its mempool costs a few seconds and never a second bid.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from provider.chain.tx.inclusion import Included, find, find_in_block, has_no_index
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import SentTx
from provider.chain.tx.node import AskHead, Node
from provider.errors import ChainError
from provider.protocols import Clock

__all__ = ["Flight", "Flights"]

_log = structlog.get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
_RESUBMIT_SECONDS = 10.0
_HEAD_SECONDS = 1.0
_LONGEST_WINDOW = 1000
_LATE_LOOKS = 3
"""Looks after the timeout height before a transaction counts as lapsed: behind one address may be several nodes, and a
node indexes transactions a moment after their block."""


@dataclass(eq=False, slots=True)
class Flight:
    """`raw` is empty for one of a process before us, whose bytes nobody kept. `taken`: the node said it has it."""

    tx: SentTx
    intents: tuple[Intent, ...]
    raw: bytes = b""
    taken: bool = True
    read_up_to: int = 0
    """The last block that was read for it, where a node has no index."""


Ended = Callable[[Flight, Included | None], Awaitable[None]]
"""Told once a flight: where it landed, or None when it is proved to be in no block."""


class Flights:
    """Watches every transaction until its end is known."""

    def __init__(self, node: Node, *, head: AskHead, clock: Clock, ended: Ended, window: int = _LONGEST_WINDOW) -> None:
        """`window`: blocks before its last height in which a transaction may be."""
        self._node = node
        self._head = head
        self._clock = clock
        self._ended = ended
        self._window = window
        self._tasks: dict[Flight, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Those of this process."""
        return sum(bool(flight.raw) for flight in self._tasks)

    @property
    def settling(self) -> set[str]:
        """Deployments whose escrow one of them settles."""
        return {deployment for flight in self._tasks for deployment in flight.tx.settles}

    @property
    def any_unsure(self) -> bool:
        """Whether there is one of which the node did not say that it has it."""
        return any(not flight.taken or not flight.raw for flight in self._tasks)

    def launch(self, flight: Flight) -> None:
        for intent in flight.intents:
            intent.flight = flight.tx.hash
        self._tasks[flight] = asyncio.create_task(self._watch(flight), name=f"transaction {flight.tx.hash[:8]}")

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _watch(self, flight: Flight) -> None:
        included = await self._look_until_known(flight)
        del self._tasks[flight]
        ending = asyncio.ensure_future(self._ended(flight, included))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.shield(ending)  # what is known is told and written down, also when we are closed meanwhile

    async def _look_until_known(self, flight: Flight) -> Included | None:
        pause, late = _FIRST_PAUSE, 0
        resubmit_at = self._clock.monotonic() + _RESUBMIT_SECONDS
        head_at = self._clock.monotonic() + _HEAD_SECONDS
        while True:
            await self._clock.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
            try:
                found = await self._find(flight)
                if found is not None:
                    return found
                now = self._clock.monotonic()
                if now >= head_at:
                    head_at = now + _HEAD_SECONDS
                    late = late + 1 if await self._is_late(flight) else 0
                    if late >= _LATE_LOOKS:
                        return None
                if now >= resubmit_at and not late:
                    resubmit_at = now + _RESUBMIT_SECONDS
                    await self._resubmit(flight)
            except ChainError as error:
                _log.debug("chain.transaction_not_looked_up", hash=flight.tx.hash, problem=str(error))

    async def _find(self, flight: Flight) -> Included | None:
        try:
            return await find(self._node, flight.tx.hash)
        except ChainError as error:
            if not has_no_index(error):
                raise
        newest = min((await self._head()).height, flight.tx.timeout_height)
        window = self._window if flight.raw else _LONGEST_WINDOW  # the process before us may have had another setting
        first = max(flight.read_up_to, flight.tx.timeout_height - window, 0) + 1
        for height in range(first, newest + 1):
            found = await find_in_block(self._node, flight.tx.hash, height)
            if found is not None:
                return found
            flight.read_up_to = height
        return None

    async def _is_late(self, flight: Flight) -> bool:
        """One block more than the timeout: a node may know of a block before it has indexed what is in it."""
        head = await self._head()
        return not head.catching_up and head.height > flight.tx.timeout_height + 1

    async def _resubmit(self, flight: Flight) -> None:
        if flight.raw:
            _log.info("chain.transaction_again", hash=flight.tx.hash, timeout_height=flight.tx.timeout_height)
            await self._node.call("broadcast_tx_sync", tx=base64.b64encode(flight.raw).decode())
