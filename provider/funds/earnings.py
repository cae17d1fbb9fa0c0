"""What was earned on which day. Pure.

Earnings are counted when they accrue, not when they are withdrawn: the difference between two looks at one lease,
spread evenly over the time between them, so that a day we were down has its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

__all__ = ["by_day", "first_days"]

_LONGEST = timedelta(days=3660)
_LATELY_SECONDS = 30 * 86400.0


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
    """Of a lease that was never seen before, `since` being when it began, roughly: the last 30 days have their shares
    and all before is that first day's, so that a store that is new holds a month of rows a lease, not years.
    """
    lately = until - _LATELY_SECONDS
    if since >= lately:
        return by_day(amount, since=since, until=until)
    early = amount * Decimal(str(lately - since)) / Decimal(str(until - since))
    shares = dict(by_day(amount - early, since=lately, until=until))
    began = datetime.fromtimestamp(max(since, 0.0), UTC).date()
    return {**shares, began: shares.get(began, Decimal(0)) + early}
