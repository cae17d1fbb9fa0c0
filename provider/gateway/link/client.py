"""The gateway's end of the socket: the newest facts, and calls that outlive a restart of the provider.

Every call may be repeated: the same manifest, or the same claim, a second time changes nothing. A call whose connection
is lost is therefore sent again over the next one, until its time is over.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from provider.errors import SettingsError
from provider.gateway.errors import RequestError
from provider.gateway.link.wire import FORM, LONGEST_OF_PROVIDER, Facts, is_own_user, raised_error
from provider.protocols import Clock
from provider.repeats import Repeats
from provider.waits import GrowingPause

__all__ = ["ProviderLink"]

_PAUSE = GrowingPause(first=0.1, longest=2.0)
_RETRY_AFTER_S = 5
_AWAY = "this provider restarts; send the request again"
_log = structlog.get_logger("gateway")


class ProviderLink:
    """`run` must run as a task. `facts`: the newest ones, None before the first connection; `on_facts` is called with
    each. The facts stay while the provider is away.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._repeats = Repeats(clock.monotonic)
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._informed = asyncio.Event()
        self.facts: Facts | None = None
        self.on_facts: Callable[[Facts], None] = lambda _: None

    async def first_facts(self) -> Facts:
        """The facts, as soon as there are any."""
        await self._informed.wait()
        assert self.facts is not None  # noqa: S101
        return self.facts

    async def run(self) -> None:
        """Connect, and connect again; for ever. Raises `SettingsError` when the provider is another account than
        before.
        """
        failures = 0
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_OF_PROVIDER)
            except OSError as error:
                failures += 1
                if self._repeats.is_news("link", problem := error.strerror or str(error)):
                    _log.warning("gateway.provider_away", socket=str(self._path), problem=problem)
            else:
                failures = 1
                await self._follow(reader, writer)
            await self._clock.sleep(_PAUSE.after(failures))

    async def call(self, name: str, arguments: Mapping[str, Any], *, seconds: float) -> Any:
        """The result of the call. Raises what the provider raised, and `RequestError` 503 without an answer within
        `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._connected.wait()
                    try:
                        return await self._ask(name, arguments)
                    except ConnectionError:
                        # a failed write is known before `_follow` hears of the end: without this turn of the loop it
                        # never would
                        await asyncio.sleep(0)
        except TimeoutError:
            raise RequestError(503, _AWAY, retry_after_s=_RETRY_AFTER_S) from None

    async def _ask(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Raises ConnectionError when the connection ends before the answer."""
        if self._writer is None:  # it ended after `_connected` woke this task
            raise ConnectionResetError("the provider has gone")
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            line = json.dumps({"id": number, "call": name, "with": arguments}, separators=(",", ":"))
            self._writer.write(line.encode() + b"\n")
            await self._writer.drain()
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take what the provider sends until it is gone."""
        try:
            if not is_own_user(writer.get_extra_info("socket")):
                raise ValueError("the process at the other end runs as another user")
            self._writer = writer
            while line := await reader.readline():
                self._take(json.loads(line))
            problem = "the provider has ended"
        except (OSError, ValueError) as error:
            problem = str(error)
        finally:
            self._connected.clear()
            self._writer = None
            writer.transport.abort()
            self._drop_calls()
        _log.warning("gateway.provider_away", socket=str(self._path), problem=problem)

    def _take(self, document: Any) -> None:
        """Raises ValueError for what is no answer and for facts of another form."""
        if not isinstance(document, dict):
            raise ValueError("the provider sent what is no answer")
        if "facts" in document:
            self._inform(document["facts"])
            return
        answer = self._waiting.get(document.get("id", 0))
        if answer is None or answer.done():
            return
        if "error" in document:
            answer.set_exception(raised_error(document["error"]))
        else:
            answer.set_result(document.get("result"))

    def _inform(self, document: Any) -> None:
        if isinstance(document, dict) and document.get("form") != FORM:
            raise ValueError("the provider is of another version of Lessor: restart the older of the two")
        try:
            facts = Facts.model_validate(document)
        except ValidationError:  # its text would show the key
            raise ValueError("the provider sent facts that cannot be read") from None
        if self.facts is not None and facts.provider != self.facts.provider:
            raise SettingsError(f"the provider at {self._path} is {facts.provider} now: restart the gateway")
        if not self._connected.is_set():
            _log.info("gateway.provider_connected", socket=str(self._path))
        self.facts = facts
        self._informed.set()
        self._connected.set()
        self.on_facts(facts)

    def _drop_calls(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the provider has gone"))
