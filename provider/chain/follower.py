"""Following the chain by height: the websocket only wakes us, `/status` is asked anyway, no block is skipped
(chain.md §9).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import structlog

from provider.chain.events import block_from_results
from provider.chain.model import Block, Head
from provider.chain.rpc import RpcClient, RpcError, jittered
from provider.errors import ChainError
from provider.protocols import Clock

__all__ = ["follow"]

_log = structlog.get_logger(__name__)
_MAX_PAUSE_SECONDS = 15.0
_TRIES_BEFORE_GAP = 3
"""A height is announced when its results are saved, but a node behind a balancer may lag; after this many tries it is
a gap.
"""

_SUBSCRIBE = {"jsonrpc": "2.0", "id": "lessor", "method": "subscribe", "params": {"query": "tm.event='NewBlockHeader'"}}
_HEARTBEAT_SECONDS = 10.0
"""aiohttp pings and drops a connection whose pong is missing: a half-open one is noticed within two of these."""


async def follow(
    rpc: RpcClient, *, after: int, head: Callable[[], Awaitable[Head]], clock: Clock, poll_seconds: float
) -> AsyncIterator[Block]:
    """Every block above `after`, once each and in order, for ever. `head` refuses a wrong chain; errors are logged
    and retried.
    """
    wake = asyncio.Event()
    listener = asyncio.create_task(_listen(rpc, wake, clock), name="chain websocket")
    try:
        height, failures = after, 0
        while True:
            wake.clear()
            try:
                now = await head()
                if now.height < height:
                    _log.warning("chain.height_below_ours", node=rpc.address, height=now.height, ours=height)
                while height < now.height:
                    block = await _next(rpc, height + 1, head=head, clock=clock)
                    height, failures = block.height, 0
                    yield block
                failures = 0
            except ChainError as error:
                failures += 1
                _log.warning("chain.unreachable", node=rpc.address, problem=error.problem, failures=failures)
                await clock.sleep(jittered(min(_MAX_PAUSE_SECONDS, poll_seconds * 2 ** min(failures, 6))))
                continue
            await _wait(wake, clock, poll_seconds)
    finally:
        listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listener


async def _next(rpc: RpcClient, height: int, *, head: Callable[[], Awaitable[Head]], clock: Clock) -> Block:
    """The block at `height`, or the first readable one above it, or an empty one at `height`: the last two marked as
    gaps.
    """
    for attempt in range(_TRIES_BEFORE_GAP):
        try:
            return await _block(rpc, height)
        except RpcError as refusal:
            now = await head()
            if now.earliest_height > height:
                return await _after_gap(rpc, first_missed=height, earliest=now.earliest_height)
            if attempt == _TRIES_BEFORE_GAP - 1:
                _log.error("chain.results_missing", node=rpc.address, height=height, problem=refusal.text)
                return Block(height=height, events=(), missed_from=height)
            await clock.sleep(0.2 * 2**attempt)
    raise AssertionError("unreachable")


async def _after_gap(rpc: RpcClient, *, first_missed: int, earliest: int) -> Block:
    _log.error("chain.pruned", node=rpc.address, first=first_missed, earliest=earliest)
    try:
        block = await _block(rpc, earliest)
    except RpcError:
        return Block(height=earliest, events=(), missed_from=first_missed)
    return Block(height=earliest, events=block.events, missed_from=first_missed)


async def _block(rpc: RpcClient, height: int) -> Block:
    result = await rpc.call("block_results", height=str(height))
    try:
        if int(result.get("height") or 0) != height:
            raise ValueError(f"it is for height {result.get('height')!r}")
        return block_from_results(height, result)
    except (ValueError, TypeError, RecursionError) as error:
        raise ChainError(rpc.address, f"block_results at height {height} cannot be read: {error}") from error


async def _wait(wake: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Until the websocket speaks, at most `seconds`."""
    timer = asyncio.ensure_future(clock.sleep(seconds))
    waiter = asyncio.ensure_future(wake.wait())
    try:
        await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        waiter.cancel()


async def _listen(rpc: RpcClient, wake: asyncio.Event, clock: Clock) -> None:
    """Set `wake` at every header, and reconnect for ever; its failures cost latency, never a block."""
    pause = 1.0
    while True:
        try:
            async for _ in _headers(rpc):
                pause = 1.0
                wake.set()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            _log.debug("chain.websocket_lost", node=rpc.address, problem=str(error) or type(error).__name__)
        await clock.sleep(pause)
        pause = min(30.0, pause * 2)


async def _headers(rpc: RpcClient) -> AsyncIterator[None]:
    address = rpc.address + "/websocket"
    timeout = aiohttp.ClientWSTimeout(ws_close=2.0)
    async with asyncio.timeout(10):
        socket = await rpc.session().ws_connect(address, heartbeat=_HEARTBEAT_SECONDS, timeout=timeout)
    async with socket:
        await socket.send_json(_SUBSCRIBE)
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                return
            yield
