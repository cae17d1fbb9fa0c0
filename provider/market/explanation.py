"""Why a decision came out as it did: the decision made again with all its checks, as data and as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provider.errors import PricingError
from provider.inventory.shortage import lacking
from provider.market.decision import BidDecision, Decision, DecisionInputs, checked_decision
from provider.market.eligibility import Check
from provider.market.pricing.bid_price import bid_price_lines
from provider.market.pricing.quote import PriceLine, Quote, maximum_price

__all__ = ["Explanation", "explain", "explanation_json"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`nodes`: node → what keeps a replica of each unit from it; a node that takes every unit is left out. The amounts
    of `lines` are in `unit`. `given` and `said` are the input and the output of a price script.
    """

    decision: Decision
    checks: tuple[Check, ...]
    nodes: Mapping[str, tuple[str, ...]]
    lines: tuple[PriceLine, ...]
    unit: str
    given: str = ""
    said: str = ""

    @property
    def bid(self) -> BidDecision | None:
        return self.decision if isinstance(self.decision, BidDecision) else None


def explain(inputs: DecisionInputs) -> Explanation:
    """The decision of `provider.market.decision.decide`, with all its reasons."""
    order, rules = inputs.order, inputs.rules
    decision, checks = checked_decision(inputs)
    quote = rules.prices if isinstance(rules.prices, Quote) else Quote("scale", unit="per block")
    try:
        lines = bid_price_lines(order.spec, rules.prices)
    except PricingError:
        lines = ()
    valid = all(check.passed for check in checks if check.name in ("size", "group"))
    nodes = lacking(order.spec, inputs.snapshot, overcommit=rules.overcommit) if valid else {}
    return Explanation(decision, tuple(checks), nodes, lines, quote.unit, quote.given, quote.said)


def explanation_json(inputs: DecisionInputs, found: Explanation) -> dict[str, Any]:
    """The explanation as plain JSON. Amounts are decimals as text."""
    bid = found.bid
    most = maximum_price(inputs.order.spec)
    return {
        "order": str(inputs.order.id),
        "group": inputs.order.spec.name,
        "verdict": "declined" if bid is None else "bid",
        "price": None if bid is None else {"amount": f"{bid.price.amount.normalize():f}", "denom": bid.price.denom},
        "maximum": {"amount": f"{most.amount.normalize():f}", "denom": most.denom},
        "reasons": [] if isinstance(found.decision, BidDecision) else list(found.decision.reasons),
        "checks": [
            {"name": check.name, "passed": check.passed, "reasons": list(check.reasons)} for check in found.checks
        ],
        "nodes": {name: list(words) for name, words in found.nodes.items()},
        "node_count": len(inputs.snapshot.nodes),
        "placement": {} if bid is None else {str(unit): list(names) for unit, names in bid.reservation.nodes.items()},
        "cards": {} if bid is None else _cards(bid),
        "lines": [_line(line) for line in found.lines],
        "unit": found.unit,
        "script": {"input": found.given, "output": found.said} if found.given or found.said else None,
    }


def _cards(bid: BidDecision) -> dict[str, str]:
    """Unit → the card its replicas are pinned to."""
    return {
        str(unit): " ".join(part for part in (card.vendor, card.model, card.memory_size, card.interface) if part)
        for unit, card in bid.reservation.placements.items()
        if card is not None
    }


def _line(line: PriceLine) -> dict[str, str]:
    return {
        "what": line.what,
        "quantity": f"{line.quantity.normalize():f}",
        "each": f"{line.scale.normalize():f}",
        "amount": f"{line.amount.normalize():f}",
    }
