"""Following the chain by height: the websocket only wakes us, `/status` is asked anyway, no block is skipped
(chain.md §9).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

import structlog

from provider.chain.connection import Connection
from provider.chain.events import block_from_answer
from provider.chain.rpc import PartlyRefused, RpcClient, RpcError, jittered
from provider.chain.websocket import Headers
from provider.errors import ChainError, WrongChain
from provider.protocols import Clock
from provider.protocols.chain import Block, Head

__all__ = ["follow"]

_log = structlog.get_logger(__name__)
_MAX_PAUSE_SECONDS = 15.0
_TRIES_BEFORE_GAP = 3
"""A height is announced when its results are saved, but a node behind a balancer may lag; after this many tries it is
a gap.
"""
_UNREADABLE_BEFORE_GAP = 3
"""When no node gave a height readably so many times, better a gap than to stand there."""
_WINDOW = 16
"""Blocks asked for at once when many are missing; grows from one, back to one at a failure."""
_SILENT_SECONDS = 20.0
_AHEAD = "must be less than or equal to the current blockchain height"
_LOWEST = "lowest height is "


class _Unreadable(ChainError):
    """The node has the height, and what it says of it cannot be."""


async def follow(rpc: RpcClient, *, after: int, clock: Clock, poll_seconds: float) -> AsyncIterator[Block]:
    """Every block above `after`, once each and in order, for ever. Errors are logged and retried; a node of another
    chain, one that is catching up or one below our height gives nothing.
    """
    headers = Headers(rpc, clock=clock)
    listener = asyncio.create_task(headers.run(), name="chain websocket")
    follower = _Follower(rpc, after, clock=clock, headers=headers, poll_seconds=poll_seconds)
    try:
        while True:
            try:
                async with contextlib.aclosing(follower.new_blocks()) as blocks:
                    async for block in blocks:
                        yield block
                pause = poll_seconds
            except ChainError as error:
                pause = follower.failed(error)
            await headers.wait(pause)
    finally:
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener


class _Follower:
    """Where we are, and how it goes."""

    def __init__(self, rpc: RpcClient, height: int, *, clock: Clock, headers: Headers, poll_seconds: float) -> None:
        self._rpc = rpc
        self._clock = clock
        self._headers = headers
        self._poll_seconds = poll_seconds
        self._asked_at = -poll_seconds
        self._height = height
        self._failures = 0
        self._unreadable = 0
        self._window = 1
        self._told_behind = False
        self._tip, self._risen_at, self._told_silent = 0, clock.monotonic(), False
        rpc.saw(height)

    async def new_blocks(self) -> AsyncGenerator[Block, None]:
        """Up to the height that is known now."""
        last = await self._last()
        while self._height < last:
            async with contextlib.aclosing(self._stretch(self._height + 1, last)) as blocks:
                async for block in blocks:
                    self._height, self._failures, self._unreadable = block.height, 0, 0
                    self._rpc.saw(block.height)
                    yield block
        self._failures = 0

    async def _last(self) -> int:
        """The height to read up to. The very next block is read on the websocket's word, as long as the status was
        asked for not long ago.
        """
        now = self._clock.monotonic()
        if self._headers.heard == self._height + 1 and not self._failures and now - self._asked_at < self._poll_seconds:
            return self._headers.heard
        head = await self._rpc.head()
        self._asked_at = now
        self._headers.found(head.height)
        self._listen_for_silence(head.height, now)
        return 0 if self._waits_for(head) else head.height

    def failed(self, error: ChainError) -> float:
        """Seconds to wait now."""
        self._failures += 1
        self._window = 1
        self._unreadable += isinstance(error, _Unreadable | PartlyRefused)
        event = "chain.wrong" if isinstance(error, WrongChain) else "chain.unreachable"
        _log.warning(event, node=error.address, problem=error.problem, failures=self._failures)
        return jittered(min(_MAX_PAUSE_SECONDS, self._poll_seconds * 2 ** min(self._failures - 1, 6)))

    def _listen_for_silence(self, tip: int, now: float) -> None:
        """A chain that stands still is no error of any node, and still an operator wants to know."""
        if tip > self._tip:
            self._tip, self._risen_at, self._told_silent = tip, now, False
        elif not self._told_silent and now - self._risen_at > max(_SILENT_SECONDS, self._rpc.pace.silence):
            self._told_silent = True
            seconds = round(now - self._risen_at)
            _log.error(
                "chain.silent", node=self._rpc.address, height=tip, seconds=seconds, remedy="does any node go on?"
            )

    def _waits_for(self, head: Head) -> bool:
        """Blocks of the past are no news: neither those of a node that catches up nor of one that is behind us."""
        behind = head.catching_up or head.height < self._height
        if behind and not self._told_behind:
            _log.warning(
                "chain.node_behind",
                node=self._rpc.address,
                height=head.height,
                ours=self._height,
                catching_up=head.catching_up,
            )
        self._told_behind = behind
        return behind

    async def _stretch(self, first: int, last: int) -> AsyncGenerator[Block, None]:
        """Blocks from `first`, several asked for at once; ends early behind a gap."""
        asked: deque[asyncio.Task[Block]] = deque()
        height = first
        try:
            while asked or height <= last:
                while height <= last and len(asked) < self._window:
                    asked.append(asyncio.create_task(self._block(height)))
                    height += 1
                block = await asked.popleft()
                self._window = min(_WINDOW, self._window * 2)
                yield block
                if block.missed_from:
                    return
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _block(self, height: int) -> Block:
        """The block at `height`, or the first readable one above it, or an empty one at `height`: the last two marked
        as gaps.
        """
        for attempt in range(_TRIES_BEFORE_GAP):
            try:
                return await self._results(height)
            except RpcError as refusal:
                if _AHEAD in refusal.text:
                    raise ChainError(
                        refusal.address, f"has not got height {height} yet, which its status has"
                    ) from None
                if lowest := await self._lowest(refusal, height):
                    return await self._after_gap(height, lowest)
                problem = refusal.text
            await self._clock.sleep(0.2 * 2**attempt)
        _log.error("chain.results_missing", node=self._rpc.address, height=height, problem=problem)
        return Block(height=height, events=(), missed_from=height)

    async def _lowest(self, refusal: RpcError, height: int) -> int:
        """The first height that is there, when `height` was pruned everywhere; 0 when it was not."""
        number = refusal.text.partition(_LOWEST)[2]
        said = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
        head = await self._rpc.head()
        lowest = max(head.earliest_height, said if said <= head.height else 0)
        return lowest if lowest > height else 0

    async def _after_gap(self, first_missed: int, earliest: int) -> Block:
        _log.error("chain.pruned", node=self._rpc.address, first=first_missed, earliest=earliest)
        try:
            block = await self._results(earliest)
        except RpcError:
            return Block(height=earliest, events=(), missed_from=first_missed)
        return Block(height=earliest, events=block.events, missed_from=first_missed)

    async def _results(self, height: int) -> Block:
        try:
            return await self._rpc.on_any_node(lambda connection: _read(connection, height))
        except (_Unreadable, PartlyRefused) as error:
            if self._unreadable < _UNREADABLE_BEFORE_GAP or height != self._height + 1:
                raise
            if isinstance(error, PartlyRefused):
                raise error.refusal from error
            _log.error("chain.results_unreadable", node=error.address, height=height, problem=error.problem)
            return Block(height=height, events=(), missed_from=height)


async def _read(connection: Connection, height: int) -> Block:
    try:
        return await connection.read(
            "block_results", {"height": str(height)}, lambda text: block_from_answer(height, text)
        )
    except ValueError as error:
        text = f"block_results at height {height}: the answer cannot be read: {error}"
        raise _Unreadable(connection.address, text) from error
