"""The follower: every block by height. The websocket only shortens the wait, `/status` is polled anyway, and no block
is skipped (chain.md §9).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

import structlog

from provider.chain.connection import Connection
from provider.chain.events import block_from_answer
from provider.chain.rpc import PartlyRefused, RpcClient, RpcError
from provider.chain.websocket import Headers
from provider.errors import ChainError, WrongChain
from provider.protocols import Clock
from provider.protocols.chain import Block, Head
from provider.waits import GrowingPause, jittered

__all__ = ["follow"]

_log = structlog.get_logger(__name__)
_MAX_PAUSE_S = 15.0
_MAX_PAUSE_POLLS = 64
_RESULTS_PAUSE = GrowingPause(first=0.2)
_TRIES_BEFORE_GAP = 3
"""A height is announced when its results are saved, but a node behind a load balancer may lag; after this many tries
the height is a gap.
"""
_UNREADABLE_BEFORE_GAP = 3
"""After this many unreadable answers for a height it is a gap, so that the follower goes on."""
_WINDOW = 16
"""The most blocks requested at once when many are missing; starts at one, and again at one after a failure."""
_SILENT_S = 20.0
_AHEAD = "must be less than or equal to the current blockchain height"
_LOWEST = "lowest height is "


class _Unreadable(ChainError):
    """The node has the height, and its answer is malformed."""


async def follow(rpc: RpcClient, *, after: int, clock: Clock, poll_seconds: float) -> AsyncIterator[Block]:
    """Every block above `after`, once each and in order, for ever. Errors are logged and retried; a node of another
    chain, a node that is catching up and a node below the last height yield no block.
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
                pause = follower.pause_after(error)
            await headers.wait(pause)
    finally:
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener


class _Follower:
    """The height that was delivered last, and the failures since."""

    def __init__(self, rpc: RpcClient, height: int, *, clock: Clock, headers: Headers, poll_seconds: float) -> None:
        self._rpc = rpc
        self._clock = clock
        self._headers = headers
        self._poll_seconds = poll_seconds
        self._polled_at = -poll_seconds
        self._height = height
        self._failures = 0
        self._unreadable = 0
        self._window = 1
        self._logged_behind = False
        self._tip, self._risen_at, self._logged_silent = 0, clock.monotonic(), False
        rpc.raise_floor(height)

    async def new_blocks(self) -> AsyncGenerator[Block, None]:
        """The blocks up to the height that is known now."""
        last = await self._last()
        while self._height < last:
            async with contextlib.aclosing(self._stretch(self._height + 1, last)) as blocks:
                async for block in blocks:
                    self._height, self._failures, self._unreadable = block.height, 0, 0
                    self._rpc.raise_floor(block.height)
                    yield block
        self._failures = 0

    async def _last(self) -> int:
        """The height to read up to. The next block is read as soon as the websocket announces it, if the status was
        polled within the poll interval.
        """
        now = self._clock.monotonic()
        if (
            self._headers.announced == self._height + 1
            and not self._failures
            and now - self._polled_at < self._poll_seconds
        ):
            return self._headers.announced
        head = await self._rpc.head()
        self._polled_at = now
        self._headers.check_socket(head.height)
        self._log_silence(head.height, now)
        return 0 if self._is_behind(head) else head.height

    def pause_after(self, error: ChainError) -> float:
        """Log and count a failure; the seconds to wait after it."""
        self._failures += 1
        self._window = 1
        self._unreadable += isinstance(error, _Unreadable | PartlyRefused)
        event = "chain.wrong" if isinstance(error, WrongChain) else "chain.unreachable"
        _log.warning(event, node=error.address, problem=error.problem, failures=self._failures)
        longest = min(_MAX_PAUSE_S, self._poll_seconds * _MAX_PAUSE_POLLS)
        return jittered(GrowingPause(self._poll_seconds, longest).after(self._failures))

    def _log_silence(self, tip: int, now: float) -> None:
        """Log once that the chain stands still: no node fails then, and the operator must know."""
        if tip > self._tip:
            self._tip, self._risen_at, self._logged_silent = tip, now, False
        elif not self._logged_silent and now - self._risen_at > max(_SILENT_S, self._rpc.pace.silence):
            self._logged_silent = True
            seconds = round(now - self._risen_at)
            remedy = "check whether another node has newer blocks; if so, set AP_NODE to it"
            _log.error("chain.silent", node=self._rpc.address, height=tip, seconds=seconds, remedy=remedy)

    def _is_behind(self, head: Head) -> bool:
        """Whether the node is catching up or below the last height, so that its blocks are not new; logged once."""
        behind = head.catching_up or head.height < self._height
        if behind and not self._logged_behind:
            _log.warning(
                "chain.node_behind",
                node=self._rpc.address,
                height=head.height,
                known=self._height,
                catching_up=head.catching_up,
            )
        self._logged_behind = behind
        return behind

    async def _stretch(self, first: int, last: int) -> AsyncGenerator[Block, None]:
        """Blocks from `first` to `last`, several requested at once; ends early after a gap."""
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
        """The block at `height`; else, marked as a gap, the first readable block above it or an empty block at
        `height`.
        """
        for attempt in range(1, _TRIES_BEFORE_GAP + 1):
            try:
                return await self._results(height)
            except RpcError as refusal:
                if _AHEAD in refusal.text:
                    problem = f"does not have height {height} yet, which its status announces"
                    raise ChainError(refusal.address, problem) from None
                if lowest := await self._lowest(refusal, height):
                    await self._check_leap(lowest)
                    return await self._after_gap(height, lowest)
                problem = refusal.text
            await self._clock.sleep(_RESULTS_PAUSE.after(attempt))
        _log.error("chain.results_missing", node=self._rpc.address, height=height, problem=problem)
        return Block(height=height, events=(), missed_from=height)

    async def _lowest(self, refusal: RpcError, height: int) -> int:
        """The first height that exists, when `height` was pruned everywhere; 0 when it was not pruned."""
        number = refusal.text.partition(_LOWEST)[2]
        named = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
        head = await self._rpc.head()
        lowest = max(head.earliest_height, named if named <= head.height else 0)
        return lowest if lowest > height else 0

    async def _check_leap(self, height: int) -> None:
        """Raise `ChainError` when another node contradicts that the chain has reached `height`: after a leap to a
        made-up height every other node would be behind, also at the next start.
        """
        if other := await self._rpc.contradicting(height):
            text = f"has no block below {height}, which {other} contradicts; remove the wrong one from AP_NODE"
            raise ChainError(self._rpc.address, text)

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
