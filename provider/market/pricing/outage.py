"""Whether the strategy still names prices. A script that prints more than a number, or an AKT rate that is too old,
stops every bid, and each order by itself leaves only one harmless line in the log (field problem A2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from lease.ids import OrderId
from lease.printable import printable_line
from provider.market.pricing.quote import Quote

__all__ = ["FAILING", "FAILING_LONG", "FAILING_S", "PricingOutage"]

FAILING = 20
"""So many orders in a row without a price are an outage. A script may refuse many orders on purpose, so an outage is
logged once, with the last problem, and has no other effect.
"""
FAILING_LONG, FAILING_S = 3, 1800.0
"""Where few orders come, fewer in a row are an outage when half an hour has passed without a price."""
_MOST = 1000
_SHOWN = 200
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class PricingOutage:
    """The orders without a price since the last order with one. An order that is asked about every minute counts once;
    at most a thousand are counted. `since` is Unix seconds. `problem` is the last one, a single line without secrets.
    """

    orders: set[OrderId] = field(default_factory=set)
    since: float = 0.0
    problem: str = ""
    failing: bool = False

    def note(self, order: OrderId, quote: Quote, *, now: float) -> None:
        """Count the strategy's answer. The beginning and the end of an outage are logged."""
        if quote.price is not None:
            if self.failing:
                _log.info("market.pricing_works", strategy=quote.strategy, orders=len(self.orders), since=self.since)
            self.orders.clear()
            self.failing = False
            return
        was, self.since = self.failing, self.since if self.orders else now
        self.problem = printable_line(quote.problem[:_SHOWN])
        if len(self.orders) < _MOST:
            self.orders.add(order)
        few = len(self.orders) >= FAILING_LONG and now - self.since >= FAILING_S
        self.failing = was or few or len(self.orders) >= FAILING
        if self.failing and not was:
            _log.error(
                "market.pricing_failing",
                strategy=quote.strategy,
                orders=len(self.orders),
                since=self.since,
                problem=self.problem,
                remedy="no bids while it lasts: see `lessor bid list --declined` and `lessor bid explain`",
            )
