"""Why: a decision made again with everything that was looked at on the way, for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from provider.errors import PricingError
from provider.inventory.shortage import lacking
from provider.inventory.snapshot import Snapshot
from provider.market.decision import Bid, Decision, lines_of, verdict
from provider.market.eligibility import Check
from provider.market.pricing.quote import Quote
from provider.market.pricing.scale import PriceLine
from provider.market.terms import Audits, Rules, Tenant
from provider.protocols.chain import Order, ProviderRecord

__all__ = ["Explained", "explain"]


@dataclass(frozen=True, slots=True)
class Explained:
    """`nodes`: node → what keeps a replica of each unit from it; nodes that take every unit are not named. `lines` are
    in `unit`; `given` and `said` are what a price script read and printed.
    """

    decision: Decision
    checks: tuple[Check, ...]
    nodes: Mapping[str, tuple[str, ...]]
    lines: tuple[PriceLine, ...]
    unit: str
    given: str = ""
    said: str = ""

    @property
    def bid(self) -> Bid | None:
        return self.decision if isinstance(self.decision, Bid) else None


def explain(
    order: Order, record: ProviderRecord, *, snapshot: Snapshot, rules: Rules, audits: Audits, tenant: Tenant
) -> Explained:
    """Decides, by the same function as the market loop, and tells all of it."""
    decision, checks = verdict(order, record, snapshot=snapshot, rules=rules, audits=audits, tenant=tenant)
    prices = rules.prices
    quote = prices if isinstance(prices, Quote) else Quote("scale", unit="per block")
    try:
        lines = lines_of(order.spec, prices)
    except PricingError:
        lines = ()
    valid = all(check.passed for check in checks if check.name in ("size", "group"))
    nodes = lacking(order.spec, snapshot, overcommit=rules.overcommit) if valid else {}
    return Explained(decision, tuple(checks), nodes, lines, quote.unit, quote.given, quote.said)
