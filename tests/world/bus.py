"""The real bus in memory, which also remembers what was published."""

from __future__ import annotations

from provider.bus import MemoryBus

__all__ = ["FakeBus"]


class FakeBus(MemoryBus):
    """`protocols.Bus`; `published` holds (topic, value) in order."""

    def __init__(self, *, queue_size: int = 10_000) -> None:
        super().__init__(queue_size=queue_size)
        self.published: list[tuple[str, object]] = []

    def publish(self, topic: str, value: object, *, retain: bool = False) -> None:
        self.published.append((topic, value))
        super().publish(topic, value, retain=retain)

    def on(self, topic: str) -> list[object]:
        """What was published on one topic."""
        return [value for name, value in self.published if name == topic]
