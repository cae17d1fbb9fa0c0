"""The row of a decision in the store, and the queries for decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from lease.groups import GroupSpec
from lease.ids import OrderId
from lease.resources import Price
from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.market.decision import BidDecision, Decision, DecisionInputs, Declined
from provider.market.pricing.quote import Quote
from provider.market.record.capacity_log import snapshot_at
from provider.market.record.input_store import input_from, read_input
from provider.market.terms import Rules, TenantHoldings
from provider.protocols.chain import Order, OrderState
from provider.store.database import Database
from provider.store.tables import decision_inputs, decisions

__all__ = [
    "StoredDecision",
    "bids_since",
    "decision_row",
    "load_inputs",
    "orders_decided",
    "recent_decisions",
    "short_reasons",
    "won_specs",
]

_MOST_BIDS = 10_000
_REASONS, _REASON, _FAILED = 8, 240, 120
"""The row keeps so many reasons of so many characters. Making the decision again gives all of them."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """`verdict` is bid or declined. `price` is None when declined. `reasons` are the first ones, cut. `outcome` says
    what became of the bid, and is empty while that is unknown.
    """

    id: int
    order: OrderId
    decided_at: float
    verdict: str
    price: Price | None
    reasons: tuple[str, ...]
    outcome: str


def short_reasons(decision: Decision) -> tuple[str, ...]:
    """The first reasons, each cut; the last one says how many more there are."""
    reasons = () if isinstance(decision, BidDecision) else decision.reasons
    kept = tuple(reason if len(reason) <= _REASON else reason[: _REASON - 1] + "…" for reason in reasons[:_REASONS])
    more = len(reasons) - len(kept)
    return (*kept, f"and {more} more reasons") if more else kept


def decision_row(inputs: DecisionInputs, decision: Decision, *, now: float) -> dict[str, Any]:
    """The row without its references to the other tables."""
    order = inputs.order
    facts: dict[str, Any] = {
        "state": int(order.state),
        "created": order.created_at,
        "reclamation": order.reclamation_ns,
    }
    if isinstance(decision, Declined):
        facts["failed"] = {name: reason[:_FAILED] for name, reason in decision.failed.items()}
    return {
        "owner": order.id.owner,
        "dseq": str(order.id.dseq),
        "gseq": order.id.gseq,
        "oseq": order.id.oseq,
        "decided_at": now,
        "verdict": "bid" if isinstance(decision, BidDecision) else "declined",
        "price": f"{decision.price.amount:f}" if isinstance(decision, BidDecision) else "",
        "denom": decision.price.denom if isinstance(decision, BidDecision) else "",
        "reasons": json.dumps(short_reasons(decision), ensure_ascii=False, separators=(",", ":")),
        "outcome": "",
        "facts": json.dumps({**facts, "tenant": list(asdict(inputs.tenant).values())}, separators=(",", ":")),
    }


async def orders_decided(database: Database, order: OrderId) -> Sequence[StoredDecision]:
    """All decisions about one order, newest first."""
    query = (
        select(decisions)
        .where(decisions.c.dseq == str(order.dseq), decisions.c.owner == order.owner)
        .where(decisions.c.gseq == order.gseq, decisions.c.oseq == order.oseq)
        .order_by(decisions.c.id.desc())
    )
    async with database.reading() as connection:
        return [_stored(row) for row in (await connection.execute(query)).mappings().all()]


async def bids_since(database: Database, since: float) -> Sequence[tuple[OrderId, float]]:
    """(order, time) of the decisions to bid since a time (Unix seconds) whose bids became no lease, newest first; at
    most ten thousand. Raises `StoreError`.
    """
    chosen = (decisions.c.verdict == "bid") & (decisions.c.decided_at >= since) & (decisions.c.outcome != "lease")
    query = select(decisions).where(chosen).order_by(decisions.c.id.desc()).limit(_MOST_BIDS)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    return [(found.order, found.decided_at) for found in map(_stored, rows)]


async def won_specs(database: Database) -> Mapping[OrderId, GroupSpec]:
    """The group of each order whose kept decision became a lease, also when that lease has ended. Groups that cannot
    be read are left out. Raises `StoreError`.
    """
    d, inputs = decisions.c, decision_inputs.c
    won = select(d.owner, d.dseq, d.gseq, d.oseq, inputs.id, inputs.body).where(d.outcome == "lease")
    async with database.reading() as connection:
        rows = (await connection.execute(won.join_from(decisions, decision_inputs, d.spec_input == inputs.id))).all()
    specs: dict[int, GroupSpec | None] = {}
    found: dict[OrderId, GroupSpec] = {}
    for owner, dseq, gseq, oseq, number, body in rows:
        if number not in specs:
            specs[number] = _readable_spec(number, body)
        if spec := specs[number]:
            found[OrderId(owner, int(dseq), gseq, oseq)] = spec
    return found


def _readable_spec(number: int, body: bytes) -> GroupSpec | None:
    try:
        spec: GroupSpec = input_from("spec", number, body)
    except StoreError:
        return None
    return spec


async def recent_decisions(
    database: Database, *, limit: int, verdict: str = "", owner: str = "", dseq: int | None = None
) -> Sequence[StoredDecision]:
    """At most `limit` decisions, newest first; only those of `verdict`, `owner` and `dseq` where these are given."""
    query = select(decisions).order_by(decisions.c.id.desc()).limit(limit)
    for column, wanted in (("verdict", verdict), ("owner", owner), ("dseq", "" if dseq is None else str(dseq))):
        if wanted:
            query = query.where(decisions.c[column] == wanted)
    async with database.reading() as connection:
        return [_stored(row) for row in (await connection.execute(query)).mappings().all()]


async def load_inputs(database: Database, decision: int) -> DecisionInputs:
    """The inputs of the decision with this number. Raises `StoreError` when there is none, or when it cannot be
    read.
    """
    async with database.reading() as connection:
        row = (await connection.execute(select(decisions).where(decisions.c.id == decision))).mappings().one_or_none()
        if row is None:
            raise StoreError(f"there is no decision {decision}")
        kinds = ("spec", "record", "rules", "audits")
        parts = {kind: await read_input(connection, kind, row[f"{kind}_input"]) for kind in kinds}
        quote = await read_input(connection, "quote", row["quote_input"]) if row["quote_input"] else None
        snapshot = await snapshot_at(connection, row["capacity"])
    return _inputs(row, parts, quote, snapshot)


def _inputs(row: Any, parts: dict[str, Any], quote: Quote | None, snapshot: Snapshot) -> DecisionInputs:
    facts = json.loads(row["facts"])
    order_id = OrderId(row["owner"], int(row["dseq"]), row["gseq"], row["oseq"])
    order = Order(order_id, OrderState(facts["state"]), parts["spec"], facts["created"], facts["reclamation"])
    rules: Rules = parts["rules"] if quote is None else replace(parts["rules"], prices=quote)
    return DecisionInputs(order, parts["record"], snapshot, rules, parts["audits"], TenantHoldings(*facts["tenant"]))


def _stored(row: Any) -> StoredDecision:
    return StoredDecision(
        id=row["id"],
        order=OrderId(row["owner"], int(row["dseq"]), row["gseq"], row["oseq"]),
        decided_at=row["decided_at"],
        verdict=row["verdict"],
        price=Price(row["denom"], Decimal(row["price"])) if row["price"] else None,
        reasons=tuple(json.loads(row["reasons"])),
        outcome=row["outcome"],
    )
