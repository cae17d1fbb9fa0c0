"""Decisions with what they were made from. Inputs are kept once each, by digest: rules and records repeat, snapshots
often do.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lease.ids import OrderId
from lease.resources import Attribute, Price
from provider.chain.model import Order, ProviderRecord
from provider.errors import StoreError
from provider.inventory.snapshot import Snapshot
from provider.market.decision import Audits, Bid, Decision, Rules
from provider.store.database import Database
from provider.store.tables import decision_inputs, decisions

__all__ = ["DecisionInputs", "StoredDecision", "load_inputs", "orders_decided", "record_decision", "record_outcome"]

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "order": TypeAdapter(Order),
    "record": TypeAdapter(ProviderRecord),
    "snapshot": TypeAdapter(Snapshot),
    "rules": TypeAdapter(Rules),
    "audits": TypeAdapter(dict[str, tuple[Attribute, ...]]),
}


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """All that `decide` looks at."""

    order: Order
    record: ProviderRecord
    snapshot: Snapshot
    rules: Rules
    audits: Audits


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """`verdict` is bid or declined; `price` None when declined; `outcome` what became of the bid, empty while
    unknown.
    """

    id: int
    order: OrderId
    decided_at: float
    verdict: str
    price: Price | None
    reasons: tuple[str, ...]
    outcome: str


async def record_decision(database: Database, inputs: DecisionInputs, decision: Decision, *, now: float) -> int:
    """Store it; the number returned is the record a bid needs."""
    order = inputs.order.id
    row: dict[str, Any] = {
        "owner": order.owner,
        "dseq": str(order.dseq),
        "gseq": order.gseq,
        "oseq": order.oseq,
        "decided_at": now,
        "verdict": "bid" if isinstance(decision, Bid) else "declined",
        "price": f"{decision.price.amount:f}" if isinstance(decision, Bid) else "",
        "denom": decision.price.denom if isinstance(decision, Bid) else "",
        "reasons": json.dumps([] if isinstance(decision, Bid) else list(decision.reasons)),
        "outcome": "",
    }
    async with database.writing() as connection:
        for kind in _ADAPTERS:
            row[f"{kind}_input"] = await _keep(connection, kind, getattr(inputs, kind))
        result = await connection.execute(insert(decisions).values(row))
        return int((result.inserted_primary_key or (0,))[0])


async def record_outcome(database: Database, decision: int, outcome: str) -> None:
    """What became of the bid: `sent <hash>`, `refused …`, `lease`, `lost`, `closed`."""
    async with database.writing() as connection:
        await connection.execute(update(decisions).where(decisions.c.id == decision).values(outcome=outcome))


async def orders_decided(database: Database, order: OrderId) -> Sequence[StoredDecision]:
    """All decisions about one order, newest first."""
    query = (
        select(decisions)
        .where(decisions.c.owner == order.owner, decisions.c.dseq == str(order.dseq))
        .where(decisions.c.gseq == order.gseq, decisions.c.oseq == order.oseq)
        .order_by(decisions.c.id.desc())
    )
    async with database.reading() as connection:
        return [_stored(row) for row in (await connection.execute(query)).mappings().all()]


async def load_inputs(database: Database, decision: int) -> DecisionInputs:
    """What a decision was made from. Raises `StoreError` when there is none of that number, or it cannot be read."""
    async with database.reading() as connection:
        row = (await connection.execute(select(decisions).where(decisions.c.id == decision))).mappings().one_or_none()
        if row is None:
            raise StoreError(f"there is no decision {decision}")
        parts = {kind: await _read(connection, kind, row[f"{kind}_input"]) for kind in _ADAPTERS}
    return DecisionInputs(**parts)


async def _keep(connection: AsyncConnection, kind: str, value: object) -> str:
    body = _ADAPTERS[kind].dump_json(value)
    digest = hashlib.sha256(kind.encode() + b"\0" + body).hexdigest()
    known = select(decision_inputs.c.digest).where(decision_inputs.c.digest == digest)
    if (await connection.execute(known)).scalar_one_or_none() is None:
        row = {"digest": digest, "kind": kind, "body": zlib.compress(body)}
        await connection.execute(insert(decision_inputs).values(row))
    return digest


async def _read(connection: AsyncConnection, kind: str, digest: str) -> Any:
    body = (
        await connection.execute(select(decision_inputs.c.body).where(decision_inputs.c.digest == digest))
    ).scalar_one()
    try:
        return _ADAPTERS[kind].validate_json(zlib.decompress(body))
    except (zlib.error, ValidationError) as error:
        raise StoreError(f"decision input {digest} ({kind}) cannot be read: {error}") from error


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
