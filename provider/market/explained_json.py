"""An explanation as plain JSON: what the command line prints, and what a running provider answers."""

from __future__ import annotations

from typing import Any

from provider.market.decision import Bid
from provider.market.explain import Explained
from provider.market.pricing.scale import PriceLine, maximum_price
from provider.market.record.decisions import DecisionInputs

__all__ = ["explained_json"]


def explained_json(inputs: DecisionInputs, found: Explained) -> dict[str, Any]:
    """Amounts are decimals as text. `nodes` names what keeps a replica from each node that does not take all units."""
    bid = found.bid
    most = maximum_price(inputs.order.spec)
    return {
        "order": str(inputs.order.id),
        "group": inputs.order.spec.name,
        "verdict": "declined" if bid is None else "bid",
        "price": None if bid is None else {"amount": f"{bid.price.amount.normalize():f}", "denom": bid.price.denom},
        "maximum": {"amount": f"{most.amount.normalize():f}", "denom": most.denom},
        "reasons": [] if isinstance(found.decision, Bid) else list(found.decision.reasons),
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


def _cards(bid: Bid) -> dict[str, str]:
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
