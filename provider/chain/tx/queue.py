"""The queue of intents that are in no transaction yet: by rank, then by arrival; settlements of one deployment one
after another.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from provider.chain.tx.intents import Intent

__all__ = ["MOST_BYTES", "IntentQueue"]

MOST_BYTES = 256 * 1024
"""Bytes of the messages of one transaction that several intents share. A node takes 1 MiB, in a request of 1 MB in
base64; without this limit, large orders of one tenant would end the bids of others that share their transaction.
"""


class IntentQueue:
    """Intents in the order in which they are sent."""

    def __init__(self) -> None:
        self._places: dict[Intent, tuple[int, int]] = {}
        self._arrivals = itertools.count()
        self._returns = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, intent: object) -> bool:
        return intent in self._places

    def add(self, intent: Intent) -> None:
        self._places[intent] = (intent.rank, next(self._arrivals))

    def put_back(self, intent: Intent) -> None:
        """Put the intent before all others of its rank: it lost its turn through no fault of its own."""
        self._places[intent] = (intent.rank, next(self._returns))

    def discard(self, intent: Intent) -> None:
        self._places.pop(intent, None)

    def take(self, *, settling: Collection[str], at_most: int) -> tuple[Intent, ...]:
        """Remove and return the first intent that may be sent, with those that may share its transaction, in number
        and in bytes; empty when all must wait.

        `settling`: deployments of which a settlement is pending.
        """
        batch: list[Intent] = []
        size = 0
        taken = set(settling)
        for intent in sorted(self._places, key=self._places.__getitem__):
            if intent.settles & taken or not _fits(intent, batch):
                continue
            more = sum(message.ByteSize() for message in intent.messages)
            if batch and size + more > MOST_BYTES:
                continue
            batch.append(intent)
            size += more
            taken |= intent.settles
            if len(batch) >= at_most or intent.alone or not intent.kind:
                break
        for intent in batch:
            del self._places[intent]
        return tuple(batch)


def _fits(intent: Intent, batch: list[Intent]) -> bool:
    return not batch or bool(intent.kind and intent.kind == batch[0].kind and not intent.alone)
