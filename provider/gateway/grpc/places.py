"""Places for streams: so many at one time, so many of one caller. A stream keeps its place until it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from provider.gateway.errors import RequestError
from provider.gateway.refusals import Refusals

__all__ = ["StreamPlaces"]


class StreamPlaces:
    """`reason` names the refusals."""

    def __init__(self, *, most: int, of_one: int, reason: str, refusals: Refusals) -> None:
        self._most = most
        self._of_one = of_one
        self._reason = reason
        self._refusals = refusals
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """A place for a stream of `caller`. Raises `RequestError` 429 when there is none."""
        if self._taken.total() >= self._most or self._taken[caller] >= self._of_one:
            self._refusals.count(self._reason, peer=caller)
            raise RequestError(429, "too many streams at once; end one, or try again later")
        self._taken[caller] += 1
        try:
            yield
        finally:
            self._taken[caller] -= 1
            self._taken += Counter()  # forgets the callers at 0
