"""The price of AKT in USD: the last good answer of a source, as long as it is fresh. A bid never waits for it."""

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
"""USD for one AKT; the limit of the generic script (bidding.md §2.4)."""
_BYTES = 64


@dataclass(frozen=True, slots=True)
class Rate:
    """`usd` for one AKT, known since `since` (Unix seconds)."""

    usd: Decimal
    since: float


RateSource: TypeAlias = Callable[[], Rate]
"""Returns the price at once, from memory or a small local file, and raises `PricingError` when there is none. The price
of a remote service is fetched by a separate job, which leaves it where the source reads it.
"""


class Rates:
    """The newest answer of the source. While the source fails, the last answer is used until it is too old."""

    def __init__(self, source: RateSource, *, max_age_s: float, now: Callable[[], float]) -> None:
        self._source = source
        self._max_age_s = max_age_s
        self._now = now
        self._last: Rate | None = None

    def usd_per_akt(self) -> Decimal:
        """USD for one AKT. Raises `PricingError` when no fresh answer is known."""
        problem = ""
        try:
            self._last = self._source()
        except PricingError as error:
            problem = f": {error}"
        if self._last is None:
            raise PricingError(f"the price of AKT is unknown{problem}")
        age = self._now() - self._last.since
        if age > self._max_age_s:
            limit = f"at most {self._max_age_s:.0f} s are allowed (LESSOR_AKT_PRICE_AGE)"
            raise PricingError(f"the price of AKT is {age:.0f} s old, {limit}{problem}")
        if age < -self._max_age_s:
            raise PricingError(f"the price of AKT is dated {-age:.0f} s in the future, so its age is unknown")
        return self._last.usd


def file_source(path: Path | None) -> RateSource:
    """Reads a file with one number, whose age is the time since its last change, as in the generic script's cache."""

    def read() -> Rate:
        if path is None:
            raise PricingError("LESSOR_AKT_PRICE_FILE is not set")
        try:
            # not blocking: a pipe in place of the file must not stop all bids
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
