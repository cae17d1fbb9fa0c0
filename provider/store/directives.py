"""The directives of `lifecycle.directives` in the database: they outlive restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import structlog
from sqlalchemy import delete, insert, select

from lease.ids import LeaseId
from provider.errors import StoreError
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.store.database import Database
from provider.store.tables import directives as directive_rows

__all__ = ["StoredDirectives", "stored_directives"]

_STORE_S = 5.0
_log = structlog.get_logger("lessor")


class StoredDirectives:
    """`lifecycle.directives.DirectiveStore` in the database. Logs what cannot be read or written within five
    seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Collection[Directive] | None:
        try:
            async with asyncio.timeout(_STORE_S):
                return await stored_directives(self._database)
        except (StoreError, TimeoutError) as error:
            _log.error("store.unreadable", problem=str(error) or "no answer", what="directives")
            return None

    async def save(self, directives: Collection[Directive]) -> bool:
        rows = [{"lease": str(each.lease), "word": each.kind.value, "at": each.at} for each in directives]
        try:
            async with asyncio.timeout(_STORE_S), self._database.writing() as connection:
                await connection.execute(delete(directive_rows))
                if rows:
                    await connection.execute(insert(directive_rows), rows)
        except (StoreError, TimeoutError) as error:
            _log.error("store.unwritable", problem=str(error) or "no answer", what="directives")
            return False
        return True


async def stored_directives(database: Database) -> list[Directive]:
    """All directives, sorted; a row that a newer Lessor wrote in another form is left out. Raises `StoreError`."""
    async with database.reading() as connection:
        rows = (await connection.execute(select(directive_rows))).mappings().all()
    found = (_directive(str(row["lease"]), str(row["word"]), float(row["at"])) for row in rows)
    return sorted(each for each in found if each is not None)


def _directive(lease: str, word: str, at: float) -> Directive | None:
    try:
        owner, dseq, gseq, oseq, provider = lease.split("/")
        return Directive(LeaseId(owner, int(dseq), int(gseq), int(oseq), provider), DirectiveKind(word), at)
    except ValueError:
        return None
