"""What one AKT is worth: the last good answer of a source, for as long as it is fresh. A bid never waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TypeAlias

from provider.errors import PricingError

__all__ = ["Rate", "RateSource", "Rates", "file_source"]

_LARGEST = Decimal(10) ** 6
"""USD for one AKT, as the generic script's limit (bidding.md §2.4)."""
_BYTES = 64


@dataclass(frozen=True, slots=True)
class Rate:
    """`usd` for one AKT, known since `since` (Unix seconds)."""

    usd: Decimal
    since: float


RateSource: TypeAlias = Callable[[], Rate]
"""Answers at once, from memory or a small local file; raises `PricingError` when it has nothing. Whoever asks a service
does so in a job of their own and leaves the answer where a source finds it.
"""


class Rates:
    """The newest of what the source has said. A source that fails leaves the last answer, until it is too old."""

    def __init__(self, source: RateSource, *, max_age_s: float, now: Callable[[], float]) -> None:
        self._source = source
        self._max_age_s = max_age_s
        self._now = now
        self._last: Rate | None = None

    def usd_per_akt(self) -> Decimal:
        """Raises `PricingError` when there is no answer, or none that is fresh: a price is never guessed."""
        problem = ""
        try:
            self._last = self._source()
        except PricingError as error:
            problem = f": {error}"
        if self._last is None:
            raise PricingError(f"the price of AKT is unknown{problem}")
        age = self._now() - self._last.since
        if age > self._max_age_s:
            raise PricingError(f"the price of AKT is {age:.0f} s old, at most {self._max_age_s:.0f} s may be{problem}")
        if age < -self._max_age_s:
            raise PricingError(f"the price of AKT is said to be of {-age:.0f} s from now: it would stay fresh")
        return self._last.usd


def file_source(path: Path | None) -> RateSource:
    """A file that holds one number, as old as its last change: what the generic script's cache is, too."""

    def read() -> Rate:
        if path is None:
            raise PricingError("LESSOR_AKT_PRICE_FILE is not set")
        try:
            # not blocking: a pipe in the file's place must not stop the bids
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                text, changed = os.read(descriptor, _BYTES), os.fstat(descriptor).st_mtime
            finally:
                os.close(descriptor)
        except OSError as error:
            raise PricingError(f"LESSOR_AKT_PRICE_FILE={path}: {error.strerror}") from error
        return Rate(_usd(path, text), changed)

    return read


def _usd(path: Path, text: bytes) -> Decimal:
    try:
        usd = Decimal(text.decode("ascii").strip())
    except (InvalidOperation, UnicodeDecodeError):
        usd = Decimal("NaN")
    if not usd.is_finite() or not 0 < usd <= _LARGEST:
        raise PricingError(f"LESSOR_AKT_PRICE_FILE={path}: {text!r} is not a number above 0 and up to 1000000")
    return usd
