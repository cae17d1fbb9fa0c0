"""Does the strategy still name prices? A script that prints more than a number, or a rate that is no longer fresh,
stops every bid, one harmless line of the log at a time (field problem A2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from lease.ids import OrderId
from lease.printable import printable_line
from provider.market.pricing.quote import Quote

__all__ = ["FAILING", "Unpriced"]

FAILING = 20
"""Orders in a row without a price that are called a failure. A script may refuse many on purpose, so this many are told
of once, with the last words, and nothing else follows from it.
"""
_MOST = 1000
_SHOWN = 200
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Unpriced:
    """Different orders for which no price was named since one was: one that is asked about every minute counts once,
    and more than a thousand are not counted. `since` is Unix seconds; `words` are the last, one line without secrets.
    """

    orders: set[OrderId] = field(default_factory=set)
    since: float = 0.0
    words: str = ""

    @property
    def failing(self) -> bool:
        return len(self.orders) >= FAILING

    def heard(self, order: OrderId, quote: Quote, *, now: float) -> None:
        """What the strategy answered. The beginning and the end of a failure are logged, once each."""
        if quote.price is not None:
            if self.failing:
                _log.info("market.pricing_works", strategy=quote.strategy, orders=len(self.orders), since=self.since)
            self.orders.clear()
            return
        was, self.since = self.failing, self.since if self.orders else now
        self.words = printable_line(quote.problem[:_SHOWN])
        if len(self.orders) < _MOST:
            self.orders.add(order)
        if self.failing and not was:
            _log.error(
                "market.pricing_failing",
                strategy=quote.strategy,
                orders=len(self.orders),
                since=self.since,
                problem=self.words,
                remedy="no bids while it lasts: see `lessor bid list --declined` and `lessor bid explain`",
            )
