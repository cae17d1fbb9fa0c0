"""CometBFT's query language for subscriptions and `tx_search`: conditions joined by AND."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devnet.chain.rpc_params import RpcError

__all__ = ["Condition", "matches", "parse"]

MAX_LENGTH = 512
_CONDITION = re.compile(
    r"\s*(?P<key>[\w.\-/]+)\s*(?:(?P<exists>EXISTS)|(?P<op><=|>=|=|<|>|CONTAINS)\s*(?:'(?P<text>[^']*)'|(?P<number>-?\d+)))\s*"
)
_AND = re.compile(r"AND\s")


@dataclass(frozen=True, slots=True)
class Condition:
    """`op` is `=`, `<`, `>`, `<=`, `>=`, `CONTAINS` or `EXISTS`."""

    key: str
    op: str
    value: str = ""


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions of a query. Raises `RpcError` with the offset of a syntax error."""
    if len(text) > MAX_LENGTH:
        raise RpcError("maximum query length exceeded")
    found: list[Condition] = []
    position = 0
    while True:
        match = _CONDITION.match(text, position)
        if match is None:
            raise RpcError(f"failed to parse query: offset {_offset(text, position)}: EOF")
        found.append(_condition(match))
        position = match.end()
        joint = _AND.match(text, position)
        if joint is None:
            break
        position = joint.end()
    if position != len(text):
        raise RpcError(f"failed to parse query: offset {position}: unexpected text")
    return tuple(found)


def _offset(text: str, position: int) -> int:
    return len(text) if position == 0 else position


def _condition(match: re.Match[str]) -> Condition:
    if match["exists"]:
        return Condition(match["key"], "EXISTS")
    return Condition(match["key"], match["op"], match["text"] if match["text"] is not None else match["number"])


def matches(conditions: Sequence[Condition], values: Mapping[str, Sequence[str]]) -> bool:
    """`values` are the composite keys (`tm.event`, `tx.height`, `<type>.<attribute>`) with all values."""
    return all(_holds(condition, values.get(condition.key, ())) for condition in conditions)


def _holds(condition: Condition, values: Sequence[str]) -> bool:
    if condition.op == "EXISTS":
        return bool(values)
    if condition.op == "CONTAINS":
        return any(condition.value in value for value in values)
    if condition.op == "=":
        return condition.value in values
    return any(_compare(condition, value) for value in values)


def _compare(condition: Condition, value: str) -> bool:
    try:
        left, right = int(value), int(condition.value)
    except ValueError:
        return False
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[condition.op]
