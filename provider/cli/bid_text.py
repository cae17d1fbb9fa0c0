"""Decisions about orders as text for operators and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from provider.cli.output import table_lines, utc_time
from provider.market.record.decisions import StoredDecision

__all__ = ["decision_json", "decision_lines", "explained_lines"]

_COLUMNS = ("TIME", "ORDER", "DECISION")
_NODES = 200
"""The most lines about nodes; --json has all."""


def decision_json(one: StoredDecision) -> dict[str, Any]:
    """`price` as text, None when declined; `at` in UTC."""
    price = one.price
    return {
        "decision": one.id,
        "at": utc_time(one.decided_at),
        "order": str(one.order),
        "verdict": one.verdict,
        "price": None if price is None else f"{price.amount.normalize():f}{price.denom}",
        "reasons": list(one.reasons),
        "outcome": one.outcome,
    }


def decision_lines(found: Sequence[StoredDecision]) -> list[str]:
    """A table with a row for each decision, newest first."""
    return table_lines((_row(decision_json(one)) for one in found), header=_COLUMNS) or ["no decisions are kept"]


def _row(one: dict[str, Any]) -> tuple[str, str, str]:
    if one["verdict"] == "bid":
        return one["at"], one["order"], f"bid {one['price']}" + (f": {one['outcome']}" if one["outcome"] else "")
    more = len(one["reasons"]) - 1
    first = (one["reasons"] or ["?"])[0]
    return one["at"], one["order"], f"declined: {first}" + (f" (and {more} more)" if more > 0 else "")


def explained_lines(found: dict[str, Any]) -> Iterator[str]:
    """The verdict, each check, the price line by line, and each node that does not fit."""
    yield f"group {found['group']}" + (f" of {found['order']}" if "decision" in found else "")
    if "decision" in found:
        yield f"  decision {found['decision']} of {utc_time(found['decided_at'])}"
        if not found["same_verdict"]:
            yield "  this version of Lessor decides otherwise; what follows is its own reasoning"
        yield from (f"  recorded reason: {reason}" for reason in found["recorded_reasons"])
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
    rows = [(line["amount"], f"{line['quantity']} {line['what']} × {line['each']}") for line in found["lines"]]
    yield from (f"    {line}" for line in table_lines(rows, right={0}))
    if found["script"]:
        rows = [*_labelled("price script read", found["script"]["input"])]
        rows += _labelled("price script wrote", found["script"]["output"])
        yield from (f"  {line}" for line in table_lines(rows))


def _labelled(label: str, text: str) -> Iterator[tuple[str, str]]:
    """A row for each line of `text`, the first with the label."""
    for index, line in enumerate(text.strip().split("\n")):
        yield "" if index else label, line


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
