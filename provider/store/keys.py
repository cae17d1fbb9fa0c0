"""Public keys of accounts: known once, true for ever."""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from provider.store.database import Database
from provider.store.tables import public_keys

__all__ = ["load_public_key", "save_public_key"]


async def load_public_key(database: Database, address: str) -> bytes | None:
    """33 bytes, or None when it was never seen."""
    async with database.reading() as connection:
        query = select(public_keys.c.key).where(public_keys.c.address == address)
        found: bytes | None = (await connection.execute(query)).scalar_one_or_none()
        return found


async def save_public_key(database: Database, address: str, *, key: bytes) -> None:
    async with database.writing() as connection:
        await connection.execute(delete(public_keys).where(public_keys.c.address == address))
        await connection.execute(insert(public_keys).values(address=address, key=key))
