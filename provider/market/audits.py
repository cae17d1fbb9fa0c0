"""What auditors have signed for us: asked once, forgotten when the chain tells of a change, and never too old
(bidding.md §3.4, as it was meant).
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
"""Beyond these the oldest answers go; who writes an order names whatever auditors he likes."""


@dataclass(frozen=True, slots=True)
class _Answer:
    attributes: _Attributes
    since: float


@dataclass(slots=True)
class AuditCache:
    """`ask` queries the chain for one auditor; its errors are handed on and not kept. `now` is in seconds."""

    ask: Callable[[str], Awaitable[Iterable[Attribute]]]
    now: Callable[[], float]
    max_age_s: float
    changes: int = 0
    """Grows when something is forgotten, so that whoever decided by it looks again."""
    _known: dict[str, _Answer] = field(default_factory=dict)
    _asked: dict[str, asyncio.Task[_Attributes]] = field(default_factory=dict)

    async def signed_by(self, auditor: str) -> _Attributes:
        """Requests for one auditor at one time share a query."""
        found = self._known.get(auditor)
        if found is not None and self.now() - found.since < self.max_age_s:
            return found.attributes
        if auditor not in self._asked:
            task = asyncio.ensure_future(self._query(auditor))
            self._asked[auditor] = task
            task.add_done_callback(lambda done: self._done(auditor, done))
        return await asyncio.shield(self._asked[auditor])

    def forget(self, auditor: str | None = None) -> None:
        """One auditor's word has changed, or, with None, anybody's may have."""
        self.changes += 1
        for name in list(self._known) if auditor is None else [auditor]:
            self._known.pop(name, None)
        # an answer that is on its way may be of before the change: it is given to those who wait, not kept
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
            task.exception()  # those who waited have it; it may be that nobody did

    def _trim(self) -> None:
        total = sum(len(answer.attributes) for answer in self._known.values())
        for name in list(self._known):
            if len(self._known) <= _MOST_AUDITORS and total <= _MOST_ATTRIBUTES:
                return
            total -= len(self._known.pop(name).attributes)
