"""A backup of a home, made while the provider runs or not.

Each file is whole. The database is copied by SQLite's own backup. A stack whose folder changes while it is read is read
again; a running operation is in the backup as a kill at that moment would leave it, and the next operation of the lease
takes it over (docs/kill-matrix.md).
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from provider.backup.archive import CHUNK, FORM, HEAD, BackupHead, FileEntry, entry_info, head_text, is_backup
from provider.errors import ArgumentError, BackupError

__all__ = ["DATABASE_SUFFIXES", "Saved", "save_home"]

DATABASE_SUFFIXES = ("", "-wal", "-shm", "-journal")
_STACKS = "engine/stacks"
_MADE_ANEW = ("dashboard.link", "engine/kubeconfig", "engine/lock", "engine/term")
_FOLDERS_MADE_ANEW = ("engine/pulumi", "engine/resident", "engine/tmp")
"""What the start of a provider makes; what is there holds for one process only."""
_UNFINISHED = re.compile(r"\..+\.\d+(\.new)?")
"""Names of files that are about to replace others."""
_TRIES, _PAUSE_S = 8, 0.25
_BUSY_S = 60.0


@dataclass(slots=True)
class Saved:
    """`size`: of the backup, in bytes. `left_out`: what of the home is neither in it nor made by a start, each with the
    reason.
    """

    path: Path
    size: int = 0
    files: dict[str, FileEntry] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def save_home(
    home: Path,
    file: Path,
    *,
    database: Path | None,
    version: str,
    pause: Callable[[float], None] = time.sleep,
    read: Callable[[Path], bytes] = Path.read_bytes,
) -> Saved:
    """Write the backup of `home` to `file`, whole or not at all, for its owner only. `database`: the SQLite database,
    which may be anywhere; it is in the backup if it is below `home`. `pause` waits for a stack that changes,
    `read` reads a file of it.

    Raises `BackupError` and `ArgumentError`.
    """
    home, file = home.absolute(), file.absolute()
    _refuse(home, file)
    saved = Saved(file)
    inside = database.absolute() if database is not None and database.absolute().is_relative_to(home) else None
    try:
        with _written(file) as (packed, scratch):
            schema = _add_database(packed, saved, home, inside, scratch=scratch)
            _add_stacks(packed, saved, home, pause=pause, read=read)
            _add_rest(packed, saved, home, skipped=_names_of(home, inside))
            made_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            head = BackupHead(
                form=FORM, version=version, schema_number=schema, made_at=made_at, home=str(home), files=saved.files
            )
            packed.writestr(entry_info(HEAD, program=False), head_text(head))
        saved.size = file.stat().st_size
    except OSError as error:
        raise BackupError(f"{error.filename or file}: {error.strerror}; nothing was written") from error
    return saved


def _refuse(home: Path, file: Path) -> None:
    if not home.is_dir() or not any(home.iterdir()):
        raise BackupError(f"AP_HOME={home} has nothing in it: name the home of the provider")
    if file.parent.resolve().is_relative_to(home.resolve()):
        raise ArgumentError(f"{file} is in the home itself (AP_HOME={home}); name a file elsewhere, on another disk")
    if not file.parent.is_dir():
        raise BackupError(f"{file.parent} is no folder; make it first")
    if os.path.lexists(file) and not (file.is_file() and is_backup(file)):
        raise BackupError(f"{file} exists and is no backup of Lessor; name another file")


@contextmanager
def _written(file: Path) -> Iterator[tuple[zipfile.ZipFile, Path]]:
    """A new archive that takes the place of `file` at the end, and a private folder beside it."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w+b") as opened, _scratch(file.parent) as scratch:
            os.fchmod(descriptor, 0o600)
            with zipfile.ZipFile(opened, "w", allowZip64=True) as packed:
                yield packed, Path(scratch)
            opened.flush()
            os.fsync(descriptor)
        fresh.replace(file)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def _scratch(folder: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=folder, prefix=".lessor-backup-")


def _add_database(packed: zipfile.ZipFile, saved: Saved, home: Path, database: Path | None, *, scratch: Path) -> str:
    """Add the database; the number of its schema. Readers and the writer go on meanwhile."""
    if database is None or not database.is_file():
        return ""
    copy = scratch / "database"
    try:
        with (
            closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            damage = target.execute("PRAGMA quick_check(1)").fetchone()[0]
            schema = _schema(target)
    except sqlite3.Error as error:
        raise BackupError(f"the database {database} cannot be copied: {error}") from error
    if damage != "ok":
        raise BackupError(f"the database {database} is damaged: {damage}; docs/recovery.md says what to do")
    _add_file(packed, saved, database.relative_to(home).as_posix(), copy)
    return schema


def _schema(database: sqlite3.Connection) -> str:
    found = database.execute("SELECT name FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
    row = database.execute("SELECT version_num FROM alembic_version").fetchone() if found else None
    return str(row[0]) if row else ""


def _names_of(home: Path, database: Path | None) -> frozenset[str]:
    """The names of the files that SQLite keeps."""
    if database is None:
        return frozenset()
    name = database.relative_to(home).as_posix()
    return frozenset(f"{name}{suffix}" for suffix in DATABASE_SUFFIXES)


def _add_stacks(
    packed: zipfile.ZipFile,
    saved: Saved,
    home: Path,
    *,
    pause: Callable[[float], None],
    read: Callable[[Path], bytes],
) -> None:
    folder = home / _STACKS
    for stack in sorted(folder.iterdir()) if folder.is_dir() else ():
        if stack.is_dir() and not stack.is_symlink():
            for path, content in _unchanged(stack, saved, home, pause=pause, read=read).items():
                _add(packed, saved, path, iter((content,)), program=False)


def _unchanged(
    stack: Path, saved: Saved, home: Path, *, pause: Callable[[float], None], read: Callable[[Path], bytes]
) -> Mapping[str, bytes]:
    """The files of a stack's folder at one moment."""
    contents: dict[str, bytes] = {}
    for number in range(_TRIES):
        if number:
            pause(_PAUSE_S)
        found = dict(_walk(stack, home, [], skipped=frozenset()))
        before = _marks(found)
        contents = {}
        for name, path in found.items():
            with suppress(FileNotFoundError):
                contents[name] = read(path)
        if before == _marks(dict(_walk(stack, home, [], skipped=frozenset()))):
            break
    for _ in _walk(stack, home, saved.left_out, skipped=frozenset()):
        pass
    return contents


def _marks(found: Mapping[str, Path]) -> dict[str, tuple[int, ...]]:
    marks: dict[str, tuple[int, ...]] = {}
    for name, path in found.items():
        with suppress(OSError):
            state = path.stat()
            marks[name] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return marks


def _add_rest(packed: zipfile.ZipFile, saved: Saved, home: Path, *, skipped: frozenset[str]) -> None:
    anew = frozenset({*_MADE_ANEW, *_FOLDERS_MADE_ANEW, _STACKS})
    for name, path in _walk(home, home, saved.left_out, skipped=anew | skipped):
        with suppress(FileNotFoundError):
            _add_file(packed, saved, name, path)


def _walk(folder: Path, home: Path, left_out: list[str], *, skipped: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """The files below `folder` with their names in the home. Sockets are skipped; what a backup cannot hold is noted
    in `left_out`.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except FileNotFoundError:
        return
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(home).as_posix()
        if name in skipped or _UNFINISHED.fullmatch(entry.name):
            continue
        if entry.is_symlink():
            left_out.append(f"{name}: a symbolic link, to {path.readlink()}")
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(path, home, left_out, skipped=skipped)
        elif not entry.is_file(follow_symlinks=False):
            continue
        elif not name.isprintable() or "\\" in name:
            left_out.append(f"{name!a}: characters in its name")
        else:
            yield name, path


def _add_file(packed: zipfile.ZipFile, saved: Saved, name: str, path: Path) -> None:
    with path.open("rb") as file:
        program = bool(stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o100)
        _add(packed, saved, name, iter(lambda: file.read(CHUNK), b""), program=program)


def _add(packed: zipfile.ZipFile, saved: Saved, name: str, pieces: Iterator[bytes], *, program: bool) -> None:
    count, digest = 0, hashlib.sha256()
    with packed.open(entry_info(name, program=program), "w", force_zip64=True) as member:
        for piece in pieces:
            count += len(piece)
            digest.update(piece)
            member.write(piece)
    saved.files[name] = FileEntry(size=count, sha256=digest.hexdigest(), program=program)
