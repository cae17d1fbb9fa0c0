"""What the teardown brake holds and what operators have said of removals, through restarts (`lifecycle.standing`)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import structlog
from sqlalchemy import delete, insert, select

from lease.ids import LeaseId
from provider.errors import StoreError
from provider.lifecycle.directives import Standing, StandingWord
from provider.store.database import Database
from provider.store.tables import standing_words

__all__ = ["StoredMemory", "standing_of"]

_STORE_S = 5.0
_log = structlog.get_logger("lessor")


class StoredMemory:
    """`lifecycle.standing.Memory` in the database. What cannot be read or written within five seconds is loud."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Collection[Standing] | None:
        try:
            async with asyncio.timeout(_STORE_S):
                return await standing_of(self._database)
        except (StoreError, TimeoutError) as error:
            _log.error("store.unreadable", problem=str(error) or "no answer", what="teardown brake, operators' words")
            return None

    async def save(self, standing: Collection[Standing]) -> bool:
        rows = [{"lease": str(each.lease), "word": each.word.value, "at": each.at} for each in standing]
        try:
            async with asyncio.timeout(_STORE_S), self._database.writing() as connection:
                await connection.execute(delete(standing_words))
                if rows:
                    await connection.execute(insert(standing_words), rows)
        except (StoreError, TimeoutError) as error:
            _log.error("store.unwritable", problem=str(error) or "no answer", what="teardown brake, operators' words")
            return False
        return True


async def standing_of(database: Database) -> list[Standing]:
    """All of it, sorted; a row that a newer Lessor wrote otherwise is left out. Raises `StoreError`."""
    async with database.reading() as connection:
        rows = (await connection.execute(select(standing_words))).mappings().all()
    found = (_standing(str(row["lease"]), str(row["word"]), float(row["at"])) for row in rows)
    return sorted(each for each in found if each is not None)


def _standing(lease: str, word: str, at: float) -> Standing | None:
    try:
        owner, dseq, gseq, oseq, provider = lease.split("/")
        return Standing(LeaseId(owner, int(dseq), int(gseq), int(oseq), provider), StandingWord(word), at)
    except ValueError:
        return None
