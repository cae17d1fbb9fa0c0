"""The websocket: it announces that a block exists, never its content. Losing the websocket costs latency, no block
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
from provider.chain.rpc import RpcClient
from provider.protocols import Clock
from provider.waits import GrowingPause, jittered, wait_for_event

__all__ = ["Header", "Headers", "header_of"]

_log = structlog.get_logger(__name__)
_SUBSCRIBE = {"jsonrpc": "2.0", "id": "lessor", "method": "subscribe", "params": {"query": "tm.event='NewBlockHeader'"}}
_MISSED_BLOCKS = 3
_PAUSE = GrowingPause(first=0.5, longest=30.0)
_MIN_PING_S, _MAX_PING_S = 1.0, 10.0
_CONNECT_S = 10.0
_MIN_SILENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Header:
    """The content of a NewBlockHeader event; `time` in Unix seconds."""

    chain_id: str
    height: int
    time: float


class Headers:
    """Subscribes to block headers at the node in use, for ever. A connection that is half open, or whose subscription
    ended silently, is detected by pings at block intervals, and by blocks that exist and were not announced.

    `announced`: the height that was announced last, 0 for none.
    """

    def __init__(self, rpc: RpcClient, *, clock: Clock) -> None:
        self._rpc = rpc
        self._clock = clock
        self._wake = asyncio.Event()
        self._link: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._first_expected = 0
        self._last_frame_at = 0.0
        self.announced = 0

    async def run(self) -> None:
        failures = 1
        while True:
            before = self.announced
            self._link = asyncio.create_task(self._listen(), name="chain websocket connection")
            try:
                await asyncio.wait((self._link,))
            finally:
                self._link.cancel()
            failures = 1 if self.announced > before else failures + 1
            await self._clock.sleep(jittered(_PAUSE.after(failures)))

    async def wait(self, seconds: float) -> None:
        """Wait for an announcement, at most `seconds`; one since the last wait counts."""
        await wait_for_event(self._wake, clock=self._clock, seconds=seconds)
        self._wake.clear()

    def check_socket(self, height: int) -> None:
        """Reconnect when the socket missed three blocks up to `height`, which the status reports, or when it belongs to
        another node than the one in use.
        """
        if self._link is None or self._connection is None:
            return
        self._first_expected = self._first_expected or height
        silent = self._clock.monotonic() - self._last_frame_at > max(_MIN_SILENCE_S, 2 * self._rpc.pace.seconds)
        missed = silent and height - max(self.announced, self._first_expected) >= _MISSED_BLOCKS
        if missed or self._connection is not self._rpc.connection:
            why = f"it did not announce the blocks up to {height}" if missed else "another node is in use"
            _log.warning("chain.websocket_renewed", node=self._connection.address, reason=why)
            self._link.cancel()

    async def _listen(self) -> None:
        connection = self._rpc.connection
        try:
            async with asyncio.timeout(_CONNECT_S):
                ping = min(_MAX_PING_S, max(_MIN_PING_S, self._rpc.pace.seconds))
                socket = await connection.websocket(ping_seconds=ping)
            async with socket:
                await socket.send_json(_SUBSCRIBE)
                self._connection, self._first_expected, self._last_frame_at = connection, 0, self._clock.monotonic()
                async for message in socket:
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        return
                    self._take_in(header_of(message.data))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            problem = str(error) or type(error).__name__
            _log.debug("chain.websocket_lost", node=connection.address, problem=problem)
        finally:
            self._connection = None

    def _take_in(self, header: Header | None) -> None:
        if header is None or header.chain_id != self._rpc.chain_id:
            return
        self.announced, self._last_frame_at = header.height, self._clock.monotonic()
        self._rpc.pace.observe(header.height, header.time)
        self._wake.set()


def header_of(frame: str | bytes) -> Header | None:
    """The header that a frame announces; None for a frame without one, as the first answer to a subscription.

    Raises ValueError for a frame that is not a JSON object and for an error: "subscription was canceled", "already
    subscribed".
    """
    try:
        message = json.loads(frame)
    except RecursionError as error:
        raise ValueError("a frame is nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("a frame is not an object")
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
        raise ValueError(f"a header lacks height, chain or time: {error!r}") from error
