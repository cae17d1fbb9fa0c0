"""The LeaseSpecs that were tried, sealed: errors and changes are masked with them, and they name their manifest.

They hold secrets of tenants, so all of them are deleted when the lease is closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import delete, insert, select, update

from lease.spec import LeaseSpec
from provider.errors import StoreError
from provider.store.database import Database
from provider.store.sealing import KeyRing
from provider.store.tables import versions

__all__ = ["forget_versions", "manifest_of", "save_version", "versions_of"]

_KEPT = 5
"""Versions that are kept of a stack: an error may quote the version before, hardly an older one."""


async def save_version(database: Database, ring: KeyRing, spec: LeaseSpec, *, manifest_hash: str, now: float) -> None:
    """Store the version, or note that it was seen again; the oldest ones are deleted."""
    stack, spec_hash = spec.namespace, spec.content_hash()
    own = (versions.c.stack == stack, versions.c.spec_hash == spec_hash)
    async with database.writing() as connection:
        seen = {"seen_at": now, **({"manifest_hash": manifest_hash} if manifest_hash else {})}
        if (await connection.execute(update(versions).where(*own).values(seen))).rowcount:
            return
        body = ring.seal(spec.canonical_json().encode())
        row = {"stack": stack, "spec_hash": spec_hash, "manifest_hash": manifest_hash, "seen_at": now}
        await connection.execute(insert(versions).values(row | {"key_id": ring.newest, "body": body}))
        newest = select(versions.c.spec_hash).where(versions.c.stack == stack).order_by(versions.c.seen_at.desc())
        kept = (await connection.execute(newest.limit(_KEPT))).scalars().all()
        await connection.execute(delete(versions).where(versions.c.stack == stack, versions.c.spec_hash.not_in(kept)))


async def manifest_of(database: Database, stack: str, spec_hash: str) -> str:
    """The hash of the manifest that made this version, empty when it is not known."""
    query = select(versions.c.manifest_hash).where(versions.c.stack == stack, versions.c.spec_hash == spec_hash)
    async with database.reading() as connection:
        return str((await connection.execute(query)).scalar_one_or_none() or "")


async def versions_of(database: Database, ring: KeyRing, stack: str) -> Sequence[LeaseSpec]:
    """The stored versions, newest first, without those that cannot be decrypted or read."""
    query = select(versions.c.body).where(versions.c.stack == stack).order_by(versions.c.seen_at.desc())
    async with database.reading() as connection:
        bodies = (await connection.execute(query)).scalars().all()
    found = (_opened(ring, bytes(body)) for body in bodies)
    return [spec for spec in found if spec is not None]


async def forget_versions(database: Database, stack: str) -> None:
    async with database.writing() as connection:
        await connection.execute(delete(versions).where(versions.c.stack == stack))


def _opened(ring: KeyRing, body: bytes) -> LeaseSpec | None:
    try:
        return LeaseSpec.from_json(ring.open(body))
    except (StoreError, ValidationError):
        return None
