"""The bus in memory. Topics and their values:

* `chain.block`: `provider.protocols.chain.Block`, every height once and in order
* `lease.changed`: `lease.ids.LeaseId`, a lease was won, found or its escrow ends: the lease loop checks it
* `manifest.accepted`: `lease.ids.LeaseId`, the gateway has stored a manifest for it
* `lease.state`: `provider.lifecycle.state.LeaseStatus`, a lease has another state
* `stack.result`: `provider.lifecycle.state.StackReport`, an operation of the engine ended
* `inventory.changed`: None, the inventory differs from the last one
* `funds.wallet`: `provider.funds.wallet.Wallet`, retained
* `funds.escrow`: mapping of `LeaseId` to `provider.funds.escrow.LeaseFunds`, every lease, retained

No value is lost silently: when the queue of a subscriber is full, it is emptied and one `Overflow` is put in its place.
After an `Overflow` the subscriber checks everything instead of single events (docs/architecture.md §2: events only say
where to look).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

__all__ = [
    "CHAIN_BLOCK", "FUNDS_ESCROW", "FUNDS_WALLET", "INVENTORY_CHANGED", "LEASE_CHANGED", "MANIFEST_ACCEPTED",
    "MemoryBus", "Overflow", "QueueSubscription",
]  # fmt: skip

CHAIN_BLOCK = "chain.block"
LEASE_CHANGED = "lease.changed"
MANIFEST_ACCEPTED = "manifest.accepted"
INVENTORY_CHANGED = "inventory.changed"
FUNDS_WALLET = "funds.wallet"
FUNDS_ESCROW = "funds.escrow"


@dataclass(frozen=True, slots=True)
class Overflow:
    """`dropped` values were lost for this subscriber, which must reconcile from state."""

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

    def publish(self, topic: str, value: object, *, retain: bool = False) -> None:
        """Give `value` to every subscriber of `topic`; with `retain` also to later ones, until another value is
        retained.
        """
        if retain:
            self._retained[topic] = value
        for subscription in self._subscribers.get(topic, ()):
            subscription.put(value)

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
