"""Messages between parts of the provider. `provider.bus` holds the topics and the bus in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["Bus", "Subscription"]


class Subscription(Protocol):
    def __aiter__(self) -> AsyncIterator[object]: ...


class Bus(Protocol):
    """Publish and subscribe inside the provider. A retained value is given to later subscribers at once."""

    def publish(self, topic: str, value: object, *, retain: bool = False) -> None: ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Subscription]: ...
