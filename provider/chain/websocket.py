"""The websocket as a wake-up: it says that a block is there, never what is in it. Losing it costs latency, no block
(chain.md §9).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog

from provider.chain.connection import Connection
from provider.chain.nodes import unix_seconds
from provider.chain.rpc import RpcClient, jittered
from provider.protocols import Clock

__all__ = ["Header", "Headers", "header_of"]

_log = structlog.get_logger(__name__)
_SUBSCRIBE = {"jsonrpc": "2.0", "id": "lessor", "method": "subscribe", "params": {"query": "tm.event='NewBlockHeader'"}}
_DEAF_BLOCKS = 3
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_SHORTEST_PING_SECONDS, _LONGEST_PING_SECONDS = 1.0, 10.0
_CONNECT_SECONDS = 10.0
_SHORTEST_SILENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Header:
    """What a NewBlockHeader event says; `time` in Unix seconds."""

    chain_id: str
    height: int
    time: float


class Headers:
    """Listens at the node in use, for ever. A connection that is half open, or whose subscription ended without a
    word, is found by pings that fit into a block, and by blocks that are there of which it said nothing.
    """

    def __init__(self, rpc: RpcClient, *, clock: Clock) -> None:
        self._rpc = rpc
        self._clock = clock
        self._wake = asyncio.Event()
        self._link: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._owed = 0
        self._word_at = 0.0
        self.heard = 0
        """The height it announced last, 0 for none."""

    async def run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            before = self.heard
            self._link = asyncio.create_task(self._listen(), name="chain websocket connection")
            try:
                await asyncio.wait((self._link,))
            finally:
                self._link.cancel()
            pause = _FIRST_PAUSE_SECONDS if self.heard > before else min(_LONGEST_PAUSE_SECONDS, pause * 2)
            await self._clock.sleep(jittered(pause))

    async def wait(self, seconds: float) -> None:
        """Until it speaks, at most `seconds`; what it said since the last wait counts."""
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        waiter = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiter.cancel()
        self._wake.clear()

    def found(self, height: int) -> None:
        """The chain is at `height`, as asking said. A socket that owes three blocks, or that listens to another node
        than the one in use, is dropped and made anew.
        """
        if self._link is None or self._connection is None:
            return
        self._owed = self._owed or height
        silent = self._clock.monotonic() - self._word_at > max(_SHORTEST_SILENCE_SECONDS, 2 * self._rpc.pace.seconds)
        deaf = silent and height - max(self.heard, self._owed) >= _DEAF_BLOCKS
        if deaf or self._connection is not self._rpc.connection:
            why = f"it said nothing of the blocks up to {height}" if deaf else "another node is in use"
            _log.warning("chain.websocket_renewed", node=self._connection.address, why=why)
            self._link.cancel()

    async def _listen(self) -> None:
        connection = self._rpc.connection
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                ping = min(_LONGEST_PING_SECONDS, max(_SHORTEST_PING_SECONDS, self._rpc.pace.seconds))
                socket = await connection.websocket(ping_seconds=ping)
            async with socket:
                await socket.send_json(_SUBSCRIBE)
                self._connection, self._owed, self._word_at = connection, 0, self._clock.monotonic()
                async for message in socket:
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        return
                    self._hear(header_of(message.data))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            problem = str(error) or type(error).__name__
            _log.debug("chain.websocket_lost", node=connection.address, problem=problem)
        finally:
            self._connection = None

    def _hear(self, header: Header | None) -> None:
        if header is None or header.chain_id != self._rpc.chain_id:
            return
        self.heard, self._word_at = header.height, self._clock.monotonic()
        self._rpc.pace.saw(header.height, header.time)
        self._wake.set()


def header_of(frame: str | bytes) -> Header | None:
    """The header that a frame announces; None for one that announces nothing, as the first answer to a subscription.

    Raises ValueError for what is no JSON object, or an error: "subscription was canceled", "already subscribed".
    """
    try:
        message = json.loads(frame)
    except RecursionError as error:
        raise ValueError("a frame too deep to be one") from error
    if not isinstance(message, dict):
        raise ValueError("a frame that is no object")
    if message.get("error"):
        raise ValueError(f"the node ended the subscription: {str(message['error'])[:200]}")
    header = _at(message, "result", "data", "value", "header")
    return _header(header) if isinstance(header, dict) else None


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _header(fields: dict[str, Any]) -> Header:
    try:
        height = int(fields["height"])
        return Header(str(fields["chain_id"]), height, unix_seconds(str(fields["time"])))
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"a header without height, chain or time: {error!r}") from error
