"""The decisions that `lessor bid` reads from the store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from provider.cli.home import settings_of_store
from provider.errors import ArgumentError, StoreError
from provider.market.explanation import explain, explanation_json
from provider.market.record.decisions import StoredDecision, load_inputs, recent_decisions, short_reasons
from provider.store import Database, read_database

__all__ = ["past", "recent"]

_ORDER = re.compile(
    r"(?:(?P<owner>akash1[a-z0-9]{1,100})/)?(?P<dseq>\d{1,20})(?:/(?P<gseq>\d{1,10}))?(?:/(?P<oseq>\d{1,10}))?"
)
_MANY = 1000


async def recent(*, limit: int, verdict: str, owner: str) -> Sequence[StoredDecision]:
    """The newest `limit` decisions with this verdict and owner; an empty text means any.

    This function and `past` raise `ArgumentError`, `SettingsError` and `StoreError`.
    """
    async with _opened() as database:
        return await recent_decisions(database, limit=limit, verdict=verdict, owner=owner)


async def past(order: str) -> list[dict[str, Any]]:
    """The newest decision about the order, decided again from its record; several where `order` fits several orders."""
    match = _ORDER.fullmatch(order)
    if match is None:
        raise ArgumentError(f"{order[:200]!r} is no order: owner/dseq/gseq/oseq, or dseq, dseq/gseq, dseq/gseq/oseq")
    async with _opened() as database:
        found = await recent_decisions(database, limit=_MANY, owner=match["owner"] or "", dseq=int(match["dseq"]))
        newest = {one.order: one for one in reversed(found) if _fits(one, match)}
        if not newest:
            raise StoreError(
                f"no decision about {order} is kept: the provider did not see the order, or decided on it more than "
                "LESSOR_DECISIONS_AGE ago"
            )
        return [await _explained(database, one) for one in newest.values()]


def _fits(one: StoredDecision, match: re.Match[str]) -> bool:
    return all(match[name] in (None, str(getattr(one.order, name))) for name in ("gseq", "oseq"))


async def _explained(database: Database, stored: StoredDecision) -> dict[str, Any]:
    inputs = await load_inputs(database, stored.id)
    found = explain(inputs)
    document = explanation_json(inputs, found)
    kept = {
        "decision": stored.id,
        "decided_at": stored.decided_at,
        "outcome": stored.outcome,
        "same_verdict": document["verdict"] == stored.verdict,
        "recorded_reasons": [] if short_reasons(found.decision) == stored.reasons else list(stored.reasons),
    }
    return kept | document


@asynccontextmanager
async def _opened() -> AsyncIterator[Database]:
    database = await read_database(settings_of_store().database_url)
    try:
        yield database
    finally:
        await database.close()
