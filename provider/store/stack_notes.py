"""The notes of stacks in the database: `stacks.common.StackNotes` for the machines that share it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import delete, insert, select

from provider.errors import StoreError
from provider.store.database import Database
from provider.store.tables import stack_notes
from stacks.common import EngineError, StackNote

__all__ = ["StoredNotes"]

_STORE_S = 20.0


class StoredNotes:
    """One row a stack. A database that cannot be reached is an `EngineError`: nothing is run without a note of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, stack: str) -> StackNote | None:
        query = select(stack_notes).where(stack_notes.c.stack == stack)
        with _reached():
            async with asyncio.timeout(_STORE_S), self._database.reading() as connection:
                row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else StackNote(str(row["machine"]), bool(row["sound"]), str(row["begun"]))

    async def write(self, stack: str, note: StackNote) -> None:
        row = {"stack": stack, "machine": note.machine, "sound": note.sound, "begun": note.begun}
        with _reached():
            async with asyncio.timeout(_STORE_S), self._database.writing() as connection:
                await connection.execute(delete(stack_notes).where(stack_notes.c.stack == stack))
                await connection.execute(insert(stack_notes).values(row))

    async def forget(self, stack: str) -> None:
        with _reached():
            async with asyncio.timeout(_STORE_S), self._database.writing() as connection:
                await connection.execute(delete(stack_notes).where(stack_notes.c.stack == stack))


@contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except (StoreError, TimeoutError) as error:
        raise EngineError(f"the notes of stacks cannot be reached: {error or f'no answer in {_STORE_S:g} s'}") from None
