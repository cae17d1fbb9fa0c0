"""The last height of each chain that was followed."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, insert, select

from provider.store.database import Database
from provider.store.tables import chain_cursors

__all__ = ["last_chain", "load_cursor", "save_cursor"]

_FORGET = delete(chain_cursors).where(chain_cursors.c.chain_id == bindparam("chain"))
_SAVE = insert(chain_cursors)
"""Made once: a cursor is saved with each block."""


async def load_cursor(database: Database, chain_id: str) -> int | None:
    """The last height whose events were published; None when this chain was never followed."""
    async with database.reading() as connection:
        query = select(chain_cursors.c.height).where(chain_cursors.c.chain_id == chain_id)
        found: int | None = (await connection.execute(query)).scalar_one_or_none()
        return found


async def last_chain(database: Database) -> str:
    """The id of the chain that was followed last, empty when there is none."""
    async with database.reading() as connection:
        query = select(chain_cursors.c.chain_id).order_by(chain_cursors.c.saved_at.desc()).limit(1)
        return (await connection.execute(query)).scalar_one_or_none() or ""


async def save_cursor(database: Database, chain_id: str, *, height: int, now: float) -> None:
    async with database.writing() as connection:
        await connection.execute(_FORGET, {"chain": chain_id})
        await connection.execute(_SAVE, {"chain_id": chain_id, "height": height, "saved_at": now})
