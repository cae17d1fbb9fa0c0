"""Decisions and explanations as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from provider.market.record.decisions import StoredDecision

__all__ = ["decision_json", "decision_lines", "explained_lines"]

_NODES = 200
"""Lines about nodes; a cluster of thousands is asked for with --json."""


def decision_json(one: StoredDecision) -> dict[str, Any]:
    """`price` as text, None when declined; `at` in UTC."""
    price = one.price
    return {
        "decision": one.id,
        "at": _time(one.decided_at),
        "order": str(one.order),
        "verdict": one.verdict,
        "price": None if price is None else f"{price.amount.normalize():f}{price.denom}",
        "reasons": list(one.reasons),
        "outcome": one.outcome,
    }


def decision_lines(found: Sequence[StoredDecision]) -> list[str]:
    """One line a decision, newest first."""
    if not found:
        return ["no decisions are kept"]
    return [_line(decision_json(one)) for one in found]


def _line(one: dict[str, Any]) -> str:
    start = f"{one['at']}  {one['order']}  "
    if one["verdict"] == "bid":
        return start + f"bid {one['price']}" + (f": {one['outcome']}" if one["outcome"] else "")
    more = len(one["reasons"]) - 1
    first = (one["reasons"] or ["?"])[0]
    return f"{start}declined: {first}" + (f" (and {more} more)" if more > 0 else "")


def explained_lines(found: dict[str, Any]) -> Iterator[str]:
    """Verdict, checks, price, nodes."""
    yield f"group {found['group']}" + (f" of {found['order']}" if "decision" in found else "")
    if "decision" in found:
        yield f"  decision {found['decision']} of {_time(found['decided_at'])}"
        if not found["same_verdict"]:
            yield "  made again by this version it is another one: what follows is today's reasoning"
    yield f"  {_verdict(found)}"
    if found.get("outcome"):
        yield f"  became: {found['outcome']}"
    yield "  checks"
    for check in found["checks"]:
        yield f"    {'ok  ' if check['passed'] else 'NO  '}{check['name']}"
        yield from (f"          {reason}" for reason in check["reasons"])
    yield from _price_lines(found)
    yield from _node_lines(found)


def _verdict(found: dict[str, Any]) -> str:
    most = f"the order's maximum is {found['maximum']['amount']}{found['maximum']['denom']} per block"
    if found["price"] is None:
        return f"no bid; {most}"
    return f"bid {found['price']['amount']}{found['price']['denom']} per block; {most}"


def _price_lines(found: dict[str, Any]) -> Iterator[str]:
    if found["lines"]:
        yield f"  price ({found['unit']})"
    for line in found["lines"]:
        yield f"    {line['amount']:>24}  {line['quantity']} {line['what']} × {line['each']}"
    if found["script"]:
        yield from _told("price script read", found["script"]["input"])
        yield from _told("price script wrote", found["script"]["output"])


def _told(what: str, text: str) -> Iterator[str]:
    first, *others = text.strip().split("\n")
    yield f"  {what:18}  {first}"
    yield from (f"  {'':18}  {line}" for line in others)


def _node_lines(found: dict[str, Any]) -> Iterator[str]:
    for unit, names in found["placement"].items():
        card = found["cards"].get(unit)
        yield f"  unit {unit} on {', '.join(names)}" + (f" with {card}" if card else "")
    against = list(found["nodes"].items())
    yield f"  {found['node_count'] - len(against)} of {found['node_count']} nodes take one replica of every unit"
    for name, words in against[:_NODES]:
        yield f"    {name}: {'; '.join(words)}"
    if len(against) > _NODES:
        yield f"    and {len(against) - _NODES} more nodes (--json has all)"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
