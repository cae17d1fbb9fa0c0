"""The real bus in memory, which also remembers what was published."""

from __future__ import annotations

from typing import Any, TypeVar

from provider.bus import MemoryBus
from provider.protocols.bus import Topic

__all__ = ["FakeBus"]

_T = TypeVar("_T")


class FakeBus(MemoryBus):
    """`protocols.Bus`; `published` holds (topic, value) in order."""

    def __init__(self, *, queue_size: int = 10_000) -> None:
        super().__init__(queue_size=queue_size)
        self.published: list[tuple[Topic[Any], object]] = []

    def publish(self, topic: Topic[_T], value: _T, *, retain: bool = False) -> None:
        self.published.append((topic, value))
        super().publish(topic, value, retain=retain)

    def on(self, topic: str) -> list[object]:
        """What was published on one topic, in any spelling."""
        return [value for name, value in self.published if topic in (name, *name.spellings)]
