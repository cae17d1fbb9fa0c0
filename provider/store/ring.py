"""The keys of the store. A new key is made only while nothing in the store is encrypted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select, update

from provider.errors import StoreError
from provider.store.database import Database
from provider.store.sealing import KeyRing, load_ring, make_key
from provider.store.tables import runs, versions

__all__ = ["open_ring"]

_SEALED = ((runs, runs.c.result, (runs.c.id,)), (versions, versions.c.body, (versions.c.stack, versions.c.spec_hash)))


async def open_ring(database: Database, path: Path) -> KeyRing:
    """The keys in `path`; a new key when there is no file and nothing is sealed. Rows sealed with an old key are sealed
    again with the newest.

    Raises `StoreError` when the store needs a key that is missing: nothing is changed then, and no lease is lost.
    """
    needed = await _needed(database)
    if not path.exists():
        if needed:
            raise StoreError(
                f"the store's key {path} is missing, but the store is encrypted with it; {_remedy(database)}"
            )
        await asyncio.to_thread(make_key, path)
    ring = await asyncio.to_thread(load_ring, path)
    if missing := needed - set(ring.ids):
        raise StoreError(
            f"the store is encrypted with key {', '.join(sorted(missing))}, which is not among those in {path}"
            f" ({', '.join(ring.ids)}); {_remedy(database)}"
        )
    for table, column, identity in _SEALED:
        await _reseal(database, ring, table, column, identity)
    return ring


def _remedy(database: Database) -> str:
    where = database.engine.url.render_as_string(hide_password=True)
    return f"restore the key, or move the store {where} away to start with an empty one (no lease is lost)"


async def _needed(database: Database) -> set[str]:
    """The ids of the keys that rows are sealed with."""
    async with database.reading() as connection:
        found = [
            key
            for table, _, _ in _SEALED
            for key in (await connection.execute(select(table.c.key_id).distinct())).scalars()
        ]
    return {key for key in found if key}


async def _reseal(database: Database, ring: KeyRing, table: Table, column: Any, identity: tuple[Any, ...]) -> None:
    async with database.writing() as connection:
        old = select(*identity, column.label("sealed")).where(table.c.key_id.not_in(["", ring.newest]))
        for row in (await connection.execute(old)).mappings().all():
            own = [part == row[part.name] for part in identity]
            fresh = {"key_id": ring.newest, column.name: ring.seal(ring.open(bytes(row["sealed"])))}
            await connection.execute(update(table).where(*own).values(fresh))
