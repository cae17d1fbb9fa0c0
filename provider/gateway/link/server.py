"""The provider's end of the socket: it carries out the calls of a gateway process, and sends it the facts.

A gateway that does not read, sends what is no request, or belongs to another user is let go; leases and bids wait for
none of it. A call is cancelled when the connection ends: what it has written to the cluster is found by the watches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from provider.gateway.errors import RequestError
from provider.gateway.link.wire import LONGEST, Facts, error_document, is_own_user

__all__ = ["Call", "LinkServer"]

Call: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""A call's arguments → its result, both JSON values. Any error goes to the caller."""

_MOST_CALLS = 256
_WRITE_S = 20.0
_FACTS_S = 1.0
_log = structlog.get_logger("gateway")


class LinkServer:
    """`facts` is called once a second, and after `changed` at once; what differs is sent. `ended` is called when a
    connection has ended.
    """

    def __init__(
        self, calls: Mapping[str, Call], facts: Callable[[], Facts], *, ended: Callable[[], None] = lambda: None
    ) -> None:
        self._calls = calls
        self._facts = facts
        self._ended = ended
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen at `path`. Raises OSError."""
        self._server = await asyncio.start_unix_server(self._serve, path, limit=LONGEST)
        path.chmod(0o600)

    @property
    def connected(self) -> bool:
        return bool(self._open)

    def changed(self) -> None:
        """Have the facts compared now."""
        for each in self._open:
            each.news.set()

    async def stop(self) -> None:
        """Stop listening, and end the connections."""
        if self._server is not None:
            self._server.close()
            for each in tuple(self._open):
                each.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_own_user(writer.get_extra_info("socket")):
            _log.error("gateway.link_refused", problem="the process at the other end runs as another user")
            writer.close()
            return
        connection = _Connection(reader, writer, self._calls)
        self._open.add(connection)
        try:
            await connection.run(self._facts)
        finally:
            self._open.discard(connection)
            self._ended()


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: Mapping[str, Call]) -> None:
        self._reader, self._writer = reader, writer
        self._calls = calls
        self._running: set[asyncio.Task[None]] = set()
        self.news = asyncio.Event()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def run(self, facts: Callable[[], Facts]) -> None:
        """Serve until the other end is gone."""
        pushing = asyncio.create_task(self._push(facts))
        try:
            while line := await self._reader.readline():
                self._begin(line)
        except (OSError, ValueError) as error:  # a line that is too long or no request
            _log.warning("gateway.link_ended", problem=str(error))
        finally:
            for task in (pushing, *self._running):
                task.cancel()
            self.abort()

    def _begin(self, line: bytes) -> None:
        """Start a call. Raises ValueError for what is no request."""
        document = json.loads(line)
        if not isinstance(document, dict) or not isinstance(document.get("with"), dict):
            raise ValueError("the gateway sent what is no request")
        task = asyncio.create_task(self._answer(document, admitted=len(self._running) < _MOST_CALLS))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _answer(self, document: Mapping[str, Any], *, admitted: bool) -> None:
        try:
            if not admitted:
                raise RequestError(503, "too many requests at once; try again")
            outcome = {"result": await self._calls[str(document.get("call"))](document["with"])}
        except Exception as error:
            outcome = {"error": error_document(error)}
            if outcome["error"]["kind"] == "internal":
                _log.error("gateway.call_failed", call=document.get("call"), error=type(error).__name__)
        await self._send({"id": document.get("id"), **outcome})

    async def _push(self, facts: Callable[[], Facts]) -> None:
        sent = None
        while True:
            if (newest := facts()) != sent:
                await self._send({"facts": newest.model_dump(mode="json")})
                sent = newest
            self.news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), _FACTS_S)

    async def _send(self, document: Mapping[str, Any]) -> None:
        """Write a line. An end that reads nothing for too long is let go."""
        try:
            self._writer.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            async with asyncio.timeout(_WRITE_S):
                await self._writer.drain()
        except (OSError, TimeoutError):
            self.abort()
