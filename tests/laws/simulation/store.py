"""The real tables in SQLite in memory, without a thread: a thread's time is not virtual."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import StaticPool

from provider.errors import StoreError
from provider.store import Database
from provider.store.tables import metadata
from tests.laws.simulation.faults import Faults

__all__ = ["MemoryDatabase"]


class _Async:
    """What the store's functions use of an `AsyncConnection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        return self._connection.execute(statement, parameters)


@cache
def _engine() -> Engine:
    """One a process: what SQLAlchemy compiled for one run serves the next."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    return engine


class MemoryDatabase(Database):
    """`empty()` is the loss of the disk; the trouble "disk full" refuses writes. One run at a time in a process."""

    def __init__(self, faults: Faults) -> None:
        object.__setattr__(self, "_faults", faults)
        object.__setattr__(self, "_sync", _engine())
        self.empty()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        with self._sync.begin() as connection:  # type: ignore[attr-defined]
            yield cast(AsyncConnection, _Async(connection))

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        if self._faults.dead or self._faults.hit("disk full"):  # type: ignore[attr-defined]
            raise StoreError("the database cannot be written: disk full")
        with self._sync.begin() as connection:  # type: ignore[attr-defined]
            yield cast(AsyncConnection, _Async(connection))

    def rows(self, query: Any) -> list[Any]:
        with self._sync.connect() as connection:  # type: ignore[attr-defined]
            return list(connection.execute(query))

    def empty(self) -> None:
        with self._sync.begin() as connection:  # type: ignore[attr-defined]
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())

    async def close(self) -> None:
        self.empty()
