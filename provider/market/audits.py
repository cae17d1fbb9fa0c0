"""The attributes that auditors have signed for this provider: queried once, queried again after an event of a change
and when they are too old (bidding.md §3.4, as it was meant).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from lease.resources import Attribute

__all__ = ["AuditCache"]

_Attributes: TypeAlias = tuple[Attribute, ...]
_MOST_AUDITORS = 1000
_MOST_ATTRIBUTES = 50_000
"""Beyond these the oldest answers are dropped: a tenant can name any number of auditors in an order."""


@dataclass(frozen=True, slots=True)
class _Answer:
    attributes: _Attributes
    since: float


@dataclass(slots=True)
class AuditCache:
    """`ask` queries the chain for one auditor. Its errors are raised to the caller and not cached. `now` is in
    seconds.
    """

    ask: Callable[[str], Awaitable[Iterable[Attribute]]]
    now: Callable[[], float]
    max_age_s: float
    changes: int = 0
    """Grows when an answer is forgotten, so that decisions made from it are made again."""
    _known: dict[str, _Answer] = field(default_factory=dict)
    _asked: dict[str, asyncio.Task[_Attributes]] = field(default_factory=dict)

    def known(self, auditor: str) -> _Attributes | None:
        """What `auditor` has signed, as far as it is known and not too old."""
        found = self._known.get(auditor)
        return found.attributes if found is not None and self.now() - found.since < self.max_age_s else None

    async def signed_by(self, auditor: str) -> _Attributes:
        """The attributes that `auditor` has signed. Simultaneous calls for one auditor share a query."""
        known = self.known(auditor)
        if known is not None:
            return known
        if auditor not in self._asked:
            task = asyncio.ensure_future(self._query(auditor))
            self._asked[auditor] = task
            task.add_done_callback(lambda done: self._done(auditor, done))
        return await asyncio.shield(self._asked[auditor])

    def forget(self, auditor: str | None = None) -> None:
        """Query again: the signature of `auditor` has changed, or, with None, the signature of any auditor may have."""
        self.changes += 1
        for name in list(self._known) if auditor is None else [auditor]:
            self._known.pop(name, None)
        # a query that is running may read the state before the change: its callers get the answer, the cache does not
        for name in list(self._asked) if auditor is None else [auditor]:
            self._asked.pop(name, None)

    async def _query(self, auditor: str) -> _Attributes:
        since = self.now()
        attributes = tuple(await self.ask(auditor))
        if self._asked.get(auditor) is asyncio.current_task():
            self._known.pop(auditor, None)
            self._known[auditor] = _Answer(attributes, since)
            self._trim()
        return attributes

    def _done(self, auditor: str, task: asyncio.Task[_Attributes]) -> None:
        if self._asked.get(auditor) is task:
            del self._asked[auditor]
        if not task.cancelled():
            task.exception()  # retrieved here, since it may be that no caller waits any more

    def _trim(self) -> None:
        total = sum(len(answer.attributes) for answer in self._known.values())
        for name in list(self._known):
            if len(self._known) <= _MOST_AUDITORS and total <= _MOST_ATTRIBUTES:
                return
            total -= len(self._known.pop(name).attributes)
