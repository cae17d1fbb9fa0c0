"""The queue before a transaction: by rank, then by arrival; settlements of one deployment one after another."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from provider.chain.tx.intents import Intent

__all__ = ["Waiting"]


class Waiting:
    """Intents that are in no transaction yet."""

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
        """Before all others of its rank: it has had its turn and lost it through no fault of its own."""
        self._places[intent] = (intent.rank, next(self._returns))

    def discard(self, intent: Intent) -> None:
        self._places.pop(intent, None)

    def take(self, *, settling: Collection[str], at_most: int) -> tuple[Intent, ...]:
        """The first that may go, with those of its kind that may share its transaction; none when all must wait.

        `settling`: deployments with a settlement of which it is not yet known in which block it is.
        """
        batch: list[Intent] = []
        taken = set(settling)
        for intent in sorted(self._places, key=self._places.__getitem__):
            if intent.settles & taken or not _fits(intent, batch):
                continue
            batch.append(intent)
            taken |= intent.settles
            if len(batch) >= at_most or intent.alone or not intent.kind:
                break
        for intent in batch:
            del self._places[intent]
        return tuple(batch)


def _fits(intent: Intent, batch: list[Intent]) -> bool:
    return not batch or bool(intent.kind and intent.kind == batch[0].kind and not intent.alone)
