"""What was earned on which day. Pure.

Earnings count when they accrue, not when they are withdrawn: the difference between two checks of a lease is spread
evenly over the time between them, so that a day on which the provider was down has its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

__all__ = ["by_day", "first_days"]

_LONGEST = timedelta(days=3660)
_LATELY_S = 30 * 86400.0


def by_day(amount: Decimal, *, since: float, until: float) -> Mapping[date, Decimal]:
    """`amount` over the UTC days from `since` to `until` (Unix seconds); the shares add up to exactly `amount`. With a
    clock that went back, or after more than ten years, all of it is the last day's.
    """
    first, last = datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
    if last <= first or last - first > _LONGEST:
        return {last.date(): amount}
    shares: dict[date, Decimal] = {}
    left, start = amount, first
    total = Decimal(str((last - first).total_seconds()))
    while start.date() < last.date():
        midnight = datetime.combine(start.date() + timedelta(days=1), datetime.min.time(), UTC)
        shares[start.date()] = amount * Decimal(str((midnight - start).total_seconds())) / total
        left -= shares[start.date()]
        start = midnight
    return {**shares, last.date(): left}


def first_days(amount: Decimal, *, since: float, until: float) -> Mapping[date, Decimal]:
    """As `by_day`, for a lease that is seen for the first time; `since` is roughly when it began. The last 30 days have
    their shares and the first day has everything before, so that a new store gets a month of rows for a lease, not
    years.
    """
    lately = until - _LATELY_S
    if since >= lately:
        return by_day(amount, since=since, until=until)
    early = amount * Decimal(str(lately - since)) / Decimal(str(until - since))
    shares = dict(by_day(amount - early, since=lately, until=until))
    began = datetime.fromtimestamp(max(since, 0.0), UTC).date()
    return {**shares, began: shares.get(began, Decimal(0)) + early}
