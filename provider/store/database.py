"""The database: SQLite by default, any SQLAlchemy URL; it is migrated to the newest schema at the start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from provider.errors import StoreError
from provider.store.async_engine import AsyncConnection, AsyncEngine, create_async_engine
from provider.store.damage import is_suspicious

__all__ = ["Database", "newest_schema", "open_database", "read_database"]

_CONNECT_S, _COMMAND_S = 10.0, 60.0
_LAST_USERS_S = 30.0
_MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(eq=False)
class Database:
    """An open database. The functions of this package take it as their first argument. `generation` grows when another
    database takes its place (`store.guard`): numbers of rows are of another one then.
    """

    engine: AsyncEngine
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one writer: SQLite makes other writers poll its lock, in no order."""
    generation: int = 0
    suspicion: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by an error that a damaged file causes, among others."""
    _users: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _closed: bool = False

    @property
    def shared(self) -> bool:
        """Whether other machines may use it too: SQLite is a file of this one."""
        return self.engine.dialect.name != "sqlite"

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading. Errors are `StoreError`."""
        try:
            async with self._used(), self.engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._error("read", error) from error

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at the end. Errors are `StoreError` and change nothing."""
        try:
            async with self.turn, self._used(), self.engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._error("written", error) from error

    async def close(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def unused(self) -> AsyncIterator[None]:
        """Nobody has a connection, and who wants one waits. Raises `StoreError` when users do not end. The last
        connection to a file of SQLite deletes its log by name, so a file must not change its name before that.
        """
        try:
            async with self._changed:
                self._closed = True
                async with asyncio.timeout(_LAST_USERS_S):
                    await self._changed.wait_for(lambda: not self._users)
            await self.engine.dispose()
            yield
        except TimeoutError:
            raise StoreError("the database is in use all the time") from None
        finally:
            async with self._changed:
                self._closed = False
                self._changed.notify_all()

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._closed)
            self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._closed:
                async with self._changed:
                    self._changed.notify_all()

    def _error(self, done: str, error: Exception) -> StoreError:
        if is_suspicious(error):
            self.suspicion.set()
        return StoreError(f"the database cannot be {done}: {_first_line(error)}")


async def open_database(url: str, *, migrate: bool = True) -> Database:
    """Connect and migrate; without `migrate` the schema has to be the newest. Raises `StoreError` with the database
    (without a password) and the remedy.
    """
    try:
        shown = make_url(url)
        if shown.get_backend_name() == "sqlite" and shown.database:
            await asyncio.to_thread(Path(shown.database).parent.mkdir, parents=True, exist_ok=True)
        engine = create_async_engine(url, hide_parameters=True, **_options(shown))
    except (ArgumentError, ImportError, OSError) as error:
        raise StoreError(f"LESSOR_STORE_URL: cannot open the database: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _sqlite_pragmas)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_migrate if migrate else _is_newest)
    except (SQLAlchemyError, OSError, StoreError) as error:
        await engine.dispose()
        where = shown.render_as_string(hide_password=True)
        text = f"database {where}: {_first_line(error)}; move it away to start with an empty one, no lease is lost"
        raise StoreError(text) from error
    return Database(engine)


async def read_database(url: str) -> Database:
    """Open the database of a daemon, running or not, for reading only. Raises `StoreError`; creates nothing."""
    try:
        shown = make_url(url)
        sqlite = shown.get_backend_name() == "sqlite"
        if sqlite and not Path(shown.database or "").is_file():
            raise StoreError(f"there is no database {shown.database}: start `lessor run` with this AP_HOME once")
        options = {} if sqlite else {"postgresql_readonly": True}
        engine = create_async_engine(url, hide_parameters=True, execution_options=options, **_options(shown))
    except (ArgumentError, ImportError) as error:
        raise StoreError(f"LESSOR_STORE_URL: cannot open the database: {error}") from error
    if sqlite:
        event.listen(engine.sync_engine, "connect", _sqlite_reading)
    database = Database(engine)
    try:
        async with database.reading() as connection:
            await connection.run_sync(_is_newest)
    except StoreError:
        await engine.dispose()
        raise
    return database


def _options(url: URL) -> dict[str, Any]:
    """A server may have been restarted since a connection was used last, and may never answer."""
    if url.get_driver_name() != "asyncpg":
        return {}
    return {"pool_pre_ping": True, "connect_args": {"timeout": _CONNECT_S, "command_timeout": _COMMAND_S}}


def _first_line(error: Exception) -> str:
    """The error without the statement, which SQLAlchemy adds on further lines."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _sqlite_reading(connection: Any, _record: object) -> None:
    _sqlite(connection, "query_only=ON", "busy_timeout=10000")


def _sqlite_pragmas(connection: Any, _record: object) -> None:
    """A committed row survives a power cut, and readers do not wait for the writer."""
    _sqlite(connection, "journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000", "foreign_keys=ON")


def _sqlite(connection: Any, *pragmas: str) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _is_newest(connection: Connection) -> None:
    """Raise `StoreError` unless the schema is the newest: only a daemon migrates."""
    found, newest = _revision(connection), newest_schema()
    if found != newest:
        have = found or "none"
        raise StoreError(
            f"the database has schema {have}, this lessor reads {newest}: use the version that the provider runs"
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def newest_schema() -> str:
    """The number of the last migration, from the name of its file (`v0003_transactions.py`)."""
    return max(path.name[1:5] for path in (_MIGRATIONS / "versions").glob("v[0-9]*.py"))


def _migrate(connection: Connection) -> None:
    found, newest = _revision(connection), newest_schema()
    if found == newest:
        return
    if found and found > newest:
        raise StoreError(f"schema {found} is of a newer lessor, this one knows {newest}: take the newer one")
    from alembic import command  # noqa: PLC0415  its import is a fifth of a start, and seldom needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
