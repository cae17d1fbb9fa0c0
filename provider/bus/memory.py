"""The bus in memory.

No value is lost silently: when the queue of a subscriber is full, it is emptied and one `Overflow` is put in its place.
After an `Overflow` the subscriber checks everything instead of single events (docs/architecture.md §2: events only say
where to look).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from provider.protocols.bus import Topic

__all__ = ["MemoryBus", "Overflow", "QueueSubscription"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Overflow:
    """`dropped` values were lost for this subscriber, which must reconcile from state. 0: an unknown number, of another
    process.
    """

    dropped: int


class QueueSubscription:
    """The queue of one subscriber: an endless async iterator over the values of its topics."""

    def __init__(self, size: int) -> None:
        self._queue: asyncio.Queue[object] = asyncio.Queue(size)
        self._dropped = 0

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        value = await self._queue.get()
        if isinstance(value, Overflow):
            self._dropped = 0
        return value

    def put(self, value: object) -> None:
        """Never waits; a full queue becomes one `Overflow`, then `value`."""
        if self._queue.full():
            self._drop_all()
        self._queue.put_nowait(value)

    def _drop_all(self) -> None:
        while not self._queue.empty():
            self._dropped += not isinstance(self._queue.get_nowait(), Overflow)
        self._queue.put_nowait(Overflow(self._dropped))


class MemoryBus:
    """`protocols.Bus` inside one process and one event loop. `queue_size` is per subscriber, at least 2."""

    def __init__(self, *, queue_size: int = 10_000) -> None:
        if queue_size < 2:
            raise ValueError(f"queue_size is {queue_size}; it must be at least 2: an Overflow and a value")
        self._size = queue_size
        self._subscribers: dict[str, list[QueueSubscription]] = {}
        self._retained: dict[str, object] = {}

    def publish(self, topic: Topic[_T], value: _T, *, retain: bool = False) -> None:
        """Give `value` to every subscriber of `topic`, in any spelling; with `retain` also to later ones, until another
        value is retained.
        """
        for name in (topic, *topic.spellings):
            self._put(name, value, retain=retain)

    def lose(self, *topics: Topic[Any]) -> None:
        """Send an `Overflow` to the subscribers: values of these topics may have been lost on their way."""
        subscriptions = {id(each): each for name in _names(topics) for each in self._subscribers.get(name, ())}
        for subscription in subscriptions.values():
            subscription.put(Overflow(0))

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncIterator[QueueSubscription]:
        """Values published from now on, retained ones first, in order of publication across `topics`."""
        subscription = QueueSubscription(self._size)
        for topic in topics:
            self._subscribers.setdefault(topic, []).append(subscription)
            if topic in self._retained:
                subscription.put(self._retained[topic])
        try:
            yield subscription
        finally:
            for topic in topics:
                self._subscribers[topic].remove(subscription)

    def _put(self, name: str, value: object, *, retain: bool) -> None:
        if retain:
            self._retained[name] = value
        for subscription in self._subscribers.get(name, ()):
            subscription.put(value)


def _names(topics: Iterable[Topic[Any]]) -> Iterator[str]:
    for topic in topics:
        yield from (topic, *topic.spellings)
