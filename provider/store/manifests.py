"""The manifests that were accepted for each lease: when, of which hash and size. Their contents are not kept here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from lease.ids import namespace_name
from provider.records.accepted import AcceptedManifest
from provider.store.database import Database
from provider.store.tables import manifests

__all__ = ["StoredManifest", "manifests_of", "save_manifest"]

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


async def save_manifest(database: Database, manifest: AcceptedManifest) -> None:
    """Record that the manifest was accepted; the one that was accepted last counts once more. Raises `StoreError`."""
    stack = namespace_name(manifest.lease)
    own = manifests.c.stack == stack
    ids = select(manifests.c.id).where(own).order_by(manifests.c.id.desc())
    async with database.writing() as connection:
        newest = select(manifests).where(own).order_by(manifests.c.id.desc()).limit(1)
        last = (await connection.execute(newest)).mappings().one_or_none()
        if last is not None and (last["version"], last["manifest_hash"]) == (manifest.version, manifest.manifest_hash):
            again = {"last_at": manifest.at, "times": manifests.c.times + 1}
            await connection.execute(update(manifests).where(manifests.c.id == last["id"]).values(again))
            return
        await connection.execute(insert(manifests).values(_row(manifest, stack)))
        beyond = (await connection.execute(ids.offset(_KEPT).limit(1))).scalar_one_or_none()
        if beyond is not None:
            await connection.execute(delete(manifests).where(own, manifests.c.id <= beyond))


async def manifests_of(database: Database, stack: str, *, limit: int = 100) -> Sequence[StoredManifest]:
    """The newest `limit` manifests of a lease, newest first. Raises `StoreError`."""
    query = select(manifests).where(manifests.c.stack == stack).order_by(manifests.c.id.desc()).limit(limit)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    names = ("accepted_at", "last_at", "times", "owner", "version", "manifest_hash", "bytes", "services")
    return [StoredManifest(*(row[name] for name in names)) for row in rows]


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
