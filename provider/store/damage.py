"""A file of SQLite that is no usable database: how it is found out, and how it is set aside for the operator.

An error only makes the provider look at the file. What is found there decides: a disk that is full, or a database that
somebody else holds, is no damage.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from provider.errors import StoreError

__all__ = ["Schema", "damaged_files", "file_problem", "is_suspicious", "set_aside", "sqlite_file"]

_MARK = ".damaged-"
_KEPT = 10
"""Damaged files that are kept: a disk that breaks each new one must not be filled."""
_LOGS = ("", "-wal", "-shm")
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SUSPICIOUS = _DAMAGE | {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_ERROR}
_PRIMARY = 0xFF
"""The bits of an extended error code that hold the primary one."""
_BUSY_S = 10.0
_VERSION = "alembic_version"


@dataclass(frozen=True, slots=True)
class Schema:
    """The version of the newest schema, and its tables."""

    version: str
    tables: frozenset[str]


def sqlite_file(url: str) -> Path | None:
    """The file of the database; None for one that is no file."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def is_suspicious(error: BaseException) -> bool:
    """Whether a damaged or missing file may have caused the error (of SQLAlchemy)."""
    return _code(getattr(error, "orig", None)) in _SUSPICIOUS


def file_problem(path: Path, schema: Schema, *, used: bool) -> str:
    """Why the file is no usable database; empty when it is one, when there is none, and while it is not known. `used`:
    it had tables before. Reads all of it.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "it is a folder" if stat.S_ISDIR(mode) else "it is not a file"
    if not os.access(path, os.R_OK | os.W_OK):
        return "it cannot be read and written: Permission denied"
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_S)) as connection:
            return _contents_problem(connection, schema, used=used)
    except sqlite3.Error as error:
        return str(error) if _code(error) in _DAMAGE else ""


def set_aside(path: Path, *, now: float) -> Path:
    """Rename the file and its logs. Returns the new name of the file, under which SQLite finds its logs too; of many
    damaged files the oldest are deleted. Raises `StoreError`.
    """
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
    base, number = f"{path.name}{_MARK}{moment}Z", 1
    kept = path.with_name(base)
    while kept.exists():
        number += 1
        kept = path.with_name(f"{base}-{number}")
    try:
        for log in _LOGS:
            if os.path.lexists(found := path.with_name(path.name + log)):
                found.rename(kept.with_name(kept.name + log))
        for old in damaged_files(path)[_KEPT:]:
            _delete(old)
    except OSError as error:
        raise StoreError(f"the damaged database {path} cannot be set aside: {error.strerror}") from error
    return kept


def damaged_files(path: Path) -> list[Path]:
    """The files that were set aside, the newest first, without their logs."""
    found = path.parent.glob(f"{path.name}{_MARK}*")
    return sorted((each for each in found if not each.name.endswith(_LOGS[1:])), reverse=True)


def _contents_problem(connection: sqlite3.Connection, schema: Schema, *, used: bool) -> str:
    """An older version has fewer tables; the migration makes the others."""
    connection.execute("PRAGMA query_only = ON")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        return str(found).replace("\n", " ")
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not there & schema.tables:
        return "it has no tables" if used else ""
    if _VERSION not in there:
        return f"a table is missing: {_VERSION}"
    (version,) = connection.execute(f"SELECT max(version_num) FROM {_VERSION}").fetchone()  # noqa: S608 (a constant)
    missing = sorted(schema.tables - there) if version in (None, schema.version) else []
    return f"tables are missing: {', '.join(missing)}" if missing else ""


def _delete(path: Path) -> None:
    """A folder stays: it is not this provider's."""
    for log in _LOGS:
        found = path.with_name(path.name + log)
        if found.is_file():
            found.unlink()


def _code(error: object) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY if isinstance(code, int) else None
