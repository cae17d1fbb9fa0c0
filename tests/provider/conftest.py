"""Stores that tests of more than one part run over: SQLite, and one real PostgreSQL a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.world.postgresql_server import PostgresqlServer, a_postgresql

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql"))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    with a_postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", POSTGRESQL])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that nobody has used: a file that does not exist yet, or a fresh database with its tables."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/deep/er/x.db"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database(migrated=True)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def empty_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """As `store_url`, without any table."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/x.db"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.new_database()
