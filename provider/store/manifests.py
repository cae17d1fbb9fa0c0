"""The manifests that were accepted for each lease: when, of which hash and size. Their contents are not kept here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import bindparam, select, update

from lease.ids import namespace_name
from provider.records.accepted import AcceptedManifest
from provider.store.database import Database
from provider.store.newest_rows import add_rows, newest_rows
from provider.store.tables import manifests

__all__ = ["StoredManifest", "manifests_of", "save_manifest"]

_AT_ONCE = 100
_KEPT = 100
"""Manifests that are kept of a lease: a tenant may send others all day."""


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """See `AcceptedManifest`. It was sent `times` times in a row, last at `last_at`."""

    accepted_at: float
    last_at: float
    times: int
    owner: str
    version: str
    manifest_hash: str
    size: int
    services: int


async def save_manifest(database: Database, *accepted: AcceptedManifest) -> None:
    """Record that these manifests were accepted, in this order; the one that a lease had last counts once more. A
    hundred share a transaction. Raises `StoreError`.
    """
    waiting = iter(accepted)
    while some := list(islice(waiting, _AT_ONCE)):
        async with database.writing() as connection:
            newest = await newest_rows(connection, manifests, {namespace_name(each.lease) for each in some})
            new, again = _changes(some, newest)
            if again:
                same = update(manifests).where(manifests.c.id == bindparam("of_id"))
                values: dict[str, Any] = {"last_at": bindparam("at"), "times": bindparam("count")}
                await connection.execute(same.values(values), again)
            await add_rows(connection, manifests, new, kept=_KEPT)


async def manifests_of(database: Database, stack: str, *, limit: int = 100) -> Sequence[StoredManifest]:
    """The newest `limit` manifests of a lease, newest first. Raises `StoreError`."""
    query = select(manifests).where(manifests.c.stack == stack).order_by(manifests.c.id.desc()).limit(limit)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    names = ("accepted_at", "last_at", "times", "owner", "version", "manifest_hash", "bytes", "services")
    return [StoredManifest(*(row[name] for name in names)) for row in rows]


def _changes(
    accepted: Iterable[AcceptedManifest], newest: dict[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows to add, and the changes of stored rows. `newest`: the manifests that are stored."""
    rows: dict[str, dict[str, Any]] = {stack: dict(row) for stack, row in newest.items()}
    new, again = [], {}
    for each in accepted:
        stack = namespace_name(each.lease)
        row = rows.get(stack)
        if row is None or (row["version"], row["manifest_hash"]) != (each.version, each.manifest_hash):
            rows[stack] = row = _row(each, stack)
            new.append(row)
            continue
        row |= {"last_at": each.at, "times": row["times"] + 1}
        if "id" in row:
            again[stack] = {"of_id": row["id"], "at": row["last_at"], "count": row["times"]}
    return new, list(again.values())


def _row(manifest: AcceptedManifest, stack: str) -> dict[str, Any]:
    return {
        "stack": stack,
        "owner": manifest.lease.owner,
        "accepted_at": manifest.at,
        "last_at": manifest.at,
        "times": 1,
        "version": manifest.version,
        "manifest_hash": manifest.manifest_hash,
        "bytes": manifest.size,
        "services": manifest.services,
    }
