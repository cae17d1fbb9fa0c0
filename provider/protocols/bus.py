"""Messages between parts of the provider: the port, and the type of a topic. `provider.bus` has the implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Bus", "Subscription", "Topic"]

_T = TypeVar("_T")


class Topic(str, Generic[_T]):
    """The name of a topic whose values are `_T`. `spellings`: further names of the same topic, for subscribers that
    know it from the Go provider or from the public documentation (bidding.md §10). `shared`: the type of the values, if
    processes on other machines take part; such a value crosses a wire as JSON. None: the topic stays in this process.
    """

    __slots__ = ("shared", "spellings")
    spellings: tuple[str, ...]
    shared: type[Any] | None

    def __new__(cls, name: str, *spellings: str, shared: type[Any] | None = None) -> Topic[_T]:
        topic = super().__new__(cls, name)
        topic.spellings, topic.shared = spellings, shared
        return topic


class Subscription(Protocol):
    def __aiter__(self) -> AsyncIterator[object]: ...


class Bus(Protocol):
    """Publish and subscribe. A retained value is given to later subscribers at once."""

    def publish(self, topic: Topic[_T], value: _T, *, retain: bool = False) -> None:
        """Give `value` to every subscriber. Never waits and never fails, whatever becomes of other processes."""
        ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Subscription]:
        """The values of these topics, in any spelling, from now on."""
        ...
