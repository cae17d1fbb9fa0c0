"""The bus between processes: the bus in memory, whose shared topics Redis carries to the other processes too.

Subscribers of the own process are served from memory, so that a Redis that is dead, slow, full or something else stops
nothing; the other processes then hear nothing until it is back. A retained value is a key too, and is written again
after each new connection, since a Redis may come back empty.

Channel: the name of the topic, in each spelling. Key: `lessor:PROVIDER:TOPIC`. Both hold an `_Envelope` as JSON.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, TypeVar

import structlog
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import OutOfMemoryError

from provider.bus.memory import MemoryBus, QueueSubscription
from provider.bus.redis_url import redis_client, shown_url
from provider.metrics import BUS_CONNECTED, BUS_LOST
from provider.protocols.bus import Topic
from provider.protocols.clock import Clock
from provider.repeats import Repeats

__all__ = ["RedisBus"]

_T = TypeVar("_T")
_SHORTEST_S, _LONGEST_S = 0.5, 30.0
_AGAIN_S = 0.2
_LONGEST_MESSAGE = 4_000_000
_MOST_WAITING = 10_000
_log = structlog.get_logger(__name__)


class _Envelope(BaseModel):
    """`sender`: the process that published, for a receiver that is the sender itself. `at`: Unix seconds."""

    model_config = ConfigDict(extra="ignore")
    provider: str
    sender: str
    at: float
    retain: bool = False
    value: JsonValue


class RedisBus:
    """`protocols.Bus` over `topics` for the processes of one provider. `run` connects, for ever. `silent_s`: after that
    much silence Redis is asked whether it is there; an answer has as long to come.
    """

    def __init__(
        self,
        url: str,
        *,
        provider: str,
        topics: Sequence[Topic[Any]],
        clock: Clock,
        queue_size: int = 10_000,
        silent_s: float = 10.0,
    ) -> None:
        self._url, self._provider, self._clock, self._silent_s = url, provider, clock, silent_s
        self._topics = {str(topic): _Shared(topic) for topic in topics if topic.shared}
        self._local = MemoryBus(queue_size=queue_size)
        self._sender = secrets.token_hex(8)
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=_MOST_WAITING)
        self._retained: dict[str, bytes] = {}
        """By topic, the retained value that this process was the last to publish."""
        self._unwritten: set[str] = set()
        """Topics whose retained value is not in Redis yet."""
        self._work = asyncio.Event()
        self._repeats = Repeats(clock.monotonic)
        self.connected = asyncio.Event()

    def publish(self, topic: Topic[_T], value: _T, *, retain: bool = False) -> None:
        """As `MemoryBus.publish`, and to the other processes when Redis takes it."""
        self._local.publish(topic, value, retain=retain)
        shared = self._topics.get(topic)
        if shared is None:
            return
        text = self._text(shared, value, retain=retain)
        if retain:
            self._retained[topic] = text
            self._unwritten.add(topic)
        else:
            if len(self._waiting) == _MOST_WAITING:
                BUS_LOST.labels("full").inc()
            self._waiting.append((topic, text))
        self._work.set()

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[QueueSubscription]:
        """As `MemoryBus.subscribe`. After a lost connection the subscribers of shared topics get an `Overflow`."""
        return self._local.subscribe(*topics)

    async def run(self) -> None:
        """Carry messages until cancelled. Whatever Redis does is logged once and tried again with growing pauses."""
        pause = _SHORTEST_S
        while True:
            began = self._clock.monotonic()
            try:
                await _first_failure(self._carry())
            except Exception as error:  # whatever answers at that address must not end the provider
                self._trouble(error)
            if self._clock.monotonic() - began > _LONGEST_S:
                pause = _SHORTEST_S
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)

    def _text(self, shared: _Shared, value: object, *, retain: bool) -> bytes:
        envelope = _Envelope(
            provider=self._provider,
            sender=self._sender,
            at=self._clock.now(),
            retain=retain,
            value=shared.adapter.dump_python(value, mode="json"),
        )
        return envelope.model_dump_json().encode()

    async def _carry(self) -> None:
        """Connect and carry until something fails, which is raised."""
        async with redis_client(self._url, timeout_s=self._silent_s) as client, client.pubsub() as channels:
            await channels.subscribe(*self._topics)
            await self._take_retained(client)
            self._unwritten.update(self._retained)
            self._work.set()
            self._note_connected()
            try:
                await _first_failure(self._send(client), self._receive(channels))
            finally:
                self.connected.clear()
                BUS_CONNECTED.set(0)

    def _note_connected(self) -> None:
        BUS_CONNECTED.set(1)
        self.connected.set()
        _log.info("bus.connected", redis=shown_url(self._url))
        if self._repeats.ended("bus"):
            self._local.lose(*(shared.topic for shared in self._topics.values()))

    def _trouble(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"[:300]
        if self._repeats.is_news("bus", problem):
            _log.warning(
                "bus.unreachable", redis=shown_url(self._url), problem=problem, effect="other processes hear nothing"
            )

    async def _take_retained(self, client: Redis) -> None:
        """Take what other processes retained, unless this process was the last to publish it."""
        names = [name for name in self._topics if name not in self._retained]
        found = await client.mget([self._key(name) for name in names]) if names else []
        for name, text in zip(names, found, strict=True):
            if text is not None:
                self._take(name, _bytes(text))

    async def _send(self, client: Redis) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._send_all(client)
            except OutOfMemoryError as error:  # what is not kept as a key still goes out
                self._trouble(error)
                await self._clock.sleep(_LONGEST_S)
                self._work.set()

    async def _send_all(self, client: Redis) -> None:
        while self._waiting:
            await self._send_next(client)
        while self._unwritten:
            name = next(iter(self._unwritten))
            text = self._retained[name]
            async with client.pipeline(transaction=True) as pipe:
                pipe.set(self._key(name), text)
                for channel in self._topics[name].channels:
                    pipe.publish(channel, text)
                await pipe.execute()
            if self._retained.get(name) in (text, None):
                self._unwritten.discard(name)

    async def _send_next(self, client: Redis) -> None:
        name, text = self._waiting.popleft()
        try:
            for channel in self._topics[name].channels:
                await client.publish(channel, text)
        except BaseException:
            if len(self._waiting) < _MOST_WAITING:
                self._waiting.appendleft((name, text))
            else:
                BUS_LOST.labels("full").inc()
            raise

    async def _receive(self, channels: PubSub) -> None:
        """Take messages. Raises `TimeoutError` when the connection is silent and a question stays without an answer."""
        asked = False
        while True:
            message = await channels.get_message(timeout=self._silent_s)
            if message is None:
                if asked:
                    raise TimeoutError(f"no answer within {self._silent_s:g} s")
                await channels.ping()
            elif message["type"] == "message":
                self._take(message["channel"].decode(), _bytes(message["data"]))
            asked = message is None

    def _take(self, name: str, text: bytes) -> None:
        """Pass on what another process of this provider published. Anything else is counted and ignored."""
        shared = self._topics[name]
        try:
            if len(text) > _LONGEST_MESSAGE:
                raise ValueError("too long")
            envelope = _Envelope.model_validate_json(text)
            if envelope.sender == self._sender or envelope.provider != self._provider:
                return
            value = shared.adapter.validate_python(envelope.value)
        except (ValidationError, ValueError, TypeError):
            BUS_LOST.labels("refused").inc()
            return
        if envelope.retain:
            self._retained.pop(name, None)
            self._unwritten.discard(name)
        self._local.publish(shared.topic, value, retain=envelope.retain)

    def _key(self, name: str) -> str:
        return f"lessor:{self._provider}:{name}"


class _Shared:
    """A topic that crosses Redis, and the form of its values there."""

    def __init__(self, topic: Topic[Any]) -> None:
        self.topic = topic
        self.channels = (str(topic), *topic.spellings)

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        kind: Any = self.topic.shared
        return TypeAdapter(kind)


def _bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


async def _first_failure(*endless: Any) -> None:
    """Run coroutines until one of them fails, whose error is raised. Once cancelled, they are cancelled until they have
    ended: an `asyncio.wait_for` of Python 3.11 inside the client can swallow a cancellation.
    """
    tasks = [asyncio.ensure_future(each) for each in endless]
    try:
        await asyncio.gather(*tasks)
    finally:
        pending = set(tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=_AGAIN_S)
