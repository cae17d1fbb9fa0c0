"""The tables of the store in SQLite without a thread: the time of another thread is not virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import StaticPool

from provider.errors import StoreError
from provider.store import Database
from provider.store.tables import metadata

__all__ = ["MemoryDatabase"]


class _Async:
    """The part of an `AsyncConnection` that the functions of the store use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        return self._connection.execute(statement, parameters)

    async def exec_driver_sql(self, statement: str) -> Any:
        return self._connection.exec_driver_sql(statement)

    async def scalar(self, statement: Any) -> Any:
        return self._connection.scalar(statement)


@cache
def _shared_engine() -> Engine:
    """One engine of a process: a statement that SQLAlchemy compiled for one run serves the next."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    return engine


def _file_engine(path: Path) -> Engine:
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(f"sqlite:///{path}", poolclass=StaticPool, connect_args={"isolation_level": "IMMEDIATE"})
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA synchronous=OFF")
    metadata.create_all(engine)
    return engine


class MemoryDatabase(Database):
    """An open database. With `path` its rows outlive `close()`; without, one database at a time is open in a process,
    and it begins empty. `refuses` is asked before each write: true is a full disk.
    """

    def __init__(self, path: Path | None = None, *, refuses: Callable[[], bool] = lambda: False) -> None:
        sync = _shared_engine() if path is None else _file_engine(path)
        for name, value in {"_sync": sync, "_refuses": refuses, "_path": path, "turn": asyncio.Lock()}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "engine", cast(AsyncEngine, sync))
        if path is None:
            self.empty()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        try:
            with self._sync.connect() as connection:  # type: ignore[attr-defined]
                yield cast(AsyncConnection, _Async(connection))
        except SQLAlchemyError as error:
            raise StoreError(f"the database cannot be read: {error}") from error

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        if self._refuses():  # type: ignore[attr-defined]
            raise StoreError("the database cannot be written: disk full")
        try:
            async with self.turn:
                with self._sync.begin() as connection:  # type: ignore[attr-defined]
                    yield cast(AsyncConnection, _Async(connection))
        except SQLAlchemyError as error:
            raise StoreError(f"the database cannot be written: {error}") from error

    def execute(self, statement: str) -> None:
        """Change tables and rows behind the back of the provider."""
        with self._sync.begin() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql(statement)

    def rows(self, query: Any) -> list[Any]:
        with self._sync.connect() as connection:  # type: ignore[attr-defined]
            return list(connection.execute(query))

    def empty(self) -> None:
        """Lose the disk."""
        with self._sync.begin() as connection:  # type: ignore[attr-defined]
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())

    async def close(self) -> None:
        if self._path is None:  # type: ignore[attr-defined]
            self.empty()
        else:
            self._sync.dispose()  # type: ignore[attr-defined]
