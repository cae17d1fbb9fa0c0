"""What was decided in a time, in sum: the number of bids, and of declined orders by the check that failed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from provider.store.database import Database
from provider.store.tables import decisions

__all__ = ["FailedCheck", "Summary", "summary_since"]

_MOST = 5000
"""So many of the newest decisions are read: a status must not wait for the orders of a busy day."""


@dataclass(slots=True)
class FailedCheck:
    """`orders`: how many orders failed it; `last`: the reason of the newest one."""

    orders: int = 0
    last: str = ""


@dataclass(slots=True)
class Summary:
    """`declined`: orders. `failed`: by the name of the check; an order counts for each check that it failed. `whole`:
    whether all decisions of the time were read.
    """

    bids: int = 0
    declined: int = 0
    failed: dict[str, FailedCheck] = field(default_factory=dict)
    whole: bool = True


async def summary_since(database: Database, since: float) -> Summary:
    """The decisions since a time (Unix seconds), from the store, so that a restart forgets none. Raises
    `StoreError`.
    """
    columns = decisions.c
    query = select(columns.owner, columns.dseq, columns.gseq, columns.oseq, columns.verdict, columns.facts)
    query = query.where(columns.decided_at >= since).order_by(columns.id.desc()).limit(_MOST)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    found, seen = Summary(whole=len(rows) < _MOST), set[tuple[object, str]]()
    for row in rows:
        _count(found, row, seen)
    return found


def _count(found: Summary, row: Mapping[Any, Any], seen: set[tuple[object, str]]) -> None:
    """An order is decided about again when its reasons change, and counts once for each of them."""
    order = (row["owner"], row["dseq"], row["gseq"], row["oseq"])
    if row["verdict"] == "bid":
        found.bids += 1
        return
    found.declined += (order, "") not in seen
    seen.add((order, ""))
    for name, reason in json.loads(row["facts"]).get("failed", {}).items():
        if (order, name) not in seen:
            seen.add((order, name))
            check = found.failed.setdefault(name, FailedCheck())
            check.orders, check.last = check.orders + 1, check.last or reason
