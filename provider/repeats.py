"""Troubles that are tried again and again: each is logged when it begins and when its text changes, not at each try."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["Repeats"]

_AGAIN_S = 3600.0
_MOST = 1000
_NUMBERS = re.compile(r"\d+")


class Repeats:
    """`now`: monotonic seconds. A trouble has a fixed name and a text; numbers in the text are no change."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._logged: dict[str, tuple[str, float]] = {}

    def is_news(self, name: str, text: str) -> bool:
        """Whether the trouble is to be logged now: it is new, it changed, or it was logged an hour ago."""
        kind, now = _NUMBERS.sub("#", text), self._now()
        before = self._logged.get(name)
        if before is not None and before[0] == kind and now - before[1] < _AGAIN_S:
            return False
        if len(self._logged) >= _MOST:
            self._logged.clear()
        self._logged[name] = (kind, now)
        return True

    def ended(self, name: str) -> bool:
        """The trouble is over. Returns whether it had been logged."""
        return self._logged.pop(name, None) is not None
