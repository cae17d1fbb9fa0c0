"""A home from a backup: it is made whole beside its place, and takes it by one rename. A kill at any line leaves the
old home or the new one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from provider.backup.archive import Archive, opened
from provider.errors import BackupError
from provider.store import newest_schema
from stacks.common import DataInUse, hold

__all__ = ["Restored", "check_backup", "exchanged", "restore_home"]

_UNFINISHED = "restore-is-not-finished"
"""A file in a home that is being made. A folder without it is a whole home."""
_EXCHANGE, _HERE = 2, -100
"""RENAME_EXCHANGE and AT_FDCWD of renameat2."""
_STACKS = "engine/stacks/"


@dataclass(frozen=True, slots=True)
class Restored:
    """`aside`: where the home that was there is now; None if there was none. `without_stacks`: the number of files of
    stacks that were left out, since the backup is of a home at another path.
    """

    archive: Archive
    aside: Path | None = None
    without_stacks: int = 0


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders at once; false where the file system or the C library cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return int(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)) == 0


def check_backup(file: Path, *, version: str) -> Restored:
    """Read the whole backup and write nothing. Raises `BackupError`."""
    with _usable(file, version=version) as archive:
        for name in archive.head.files:
            for _ in archive.read(name):
                pass
        return Restored(archive)


def restore_home(
    file: Path,
    home: Path,
    *,
    version: str,
    replace: bool,
    free: Callable[[Path], int] = _free,
    exchange: Callable[[Path, Path], bool] = exchanged,
) -> Restored:
    """Put the home of the backup in the place of `home`, all or nothing. With `replace` a home that is there is moved
    aside; without it only an empty folder is taken. `free`: the bytes that
    a folder's disk has. `exchange`: as `exchanged`. Raises `BackupError`.
    """
    home = home.absolute()
    with _usable(file, version=version) as archive, _held(home, replace=replace) as was_empty:
        skipped = _stacks_of_another_place(archive, home)
        try:
            with _staging(home) as fresh:
                _refuse_size(archive, fresh.parent, free(fresh))
                _fill(archive, fresh, skipped=skipped)
                _give(fresh, home)
                os.sync()
                aside = _place(fresh, home, exchange, was_empty=was_empty)
        except OSError as error:
            raise BackupError(_cannot(home, error)) from error
        return Restored(archive, aside, len(skipped))


@contextmanager
def _usable(file: Path, *, version: str) -> Iterator[Archive]:
    """The backup, if this version can use what is in it."""
    with opened(file) as archive:
        head, newest = archive.head, newest_schema()
        if head.schema_number > newest:
            raise BackupError(
                f"{file} has a database with schema {head.schema_number}, this lessor knows {newest}: restore it with "
                f"lessor {head.version} or a newer one"
            )
        if _number(head.version) > _number(version):
            raise BackupError(
                f"{file} is of lessor {head.version}, this is {version}: restore it with {head.version} or a newer one"
            )
        yield archive


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"\d{1,9}(\.\d{1,9}){0,5}", version)
    return tuple(map(int, found[0].split("."))) if found else ()


@contextmanager
def _held(home: Path, *, replace: bool) -> Iterator[bool]:
    """Keep a provider from running in the home meanwhile; whether there was nothing in it. Raises `BackupError` when
    one runs, or when there is a home and `replace` is false.
    """
    if home.is_symlink():
        raise BackupError(f"AP_HOME={home} is a symbolic link; set AP_HOME={home.resolve()}")
    if os.path.lexists(home) and not home.is_dir():
        raise BackupError(f"AP_HOME={home} is no folder; name one")
    if home.is_dir() and any(home.iterdir()) and not replace:
        raise BackupError(
            f"AP_HOME={home} has files in it, and nothing was restored: stop the provider if it runs, and give "
            "--replace, which moves the folder aside"
        )
    if not home.is_dir() or not any(home.iterdir()):  # a provider that starts puts files there, and nothing is moved
        yield True
        return
    made = not (home / "engine").exists()
    try:
        held = hold(home / "engine")
    except DataInUse:
        raise BackupError(f"a provider runs with AP_HOME={home}: stop it first; nothing was restored") from None
    except OSError as error:
        raise BackupError(_cannot(home, error)) from error
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield False
    finally:
        if made:  # no provider has run there; the folder may have been moved aside meanwhile
            with suppress(OSError):
                os.unlink("engine/lock", dir_fd=folder)
                os.rmdir("engine", dir_fd=folder)
        os.close(folder)
        os.close(held)


@contextmanager
def _staging(home: Path) -> Iterator[Path]:
    """An empty private folder beside the home, marked as unfinished and locked. It is removed at a failure."""
    home.parent.mkdir(parents=True, exist_ok=True)
    fresh = home.with_name(f".{home.name}.restored")
    if fresh.exists() and not (fresh / _UNFINISHED).exists():
        fresh.rename(_aside(home))
    fresh.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"another restore of AP_HOME={home} runs; wait for its end") from None
        _clear(fresh)
        try:
            yield fresh
        except BaseException:
            if (fresh / _UNFINISHED).exists():
                shutil.rmtree(fresh, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def _clear(fresh: Path) -> None:
    """Remove what a restore that was killed has left, its mark last."""
    (fresh / _UNFINISHED).touch(mode=0o600)
    for entry in fresh.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _UNFINISHED:
            entry.unlink()


def _refuse_size(archive: Archive, folder: Path, free: int) -> None:
    if archive.size > free:
        raise BackupError(
            f"{archive.path} has {archive.size} bytes of files, {free} are free at {folder}: free space first"
        )


def _fill(archive: Archive, fresh: Path, *, skipped: frozenset[str]) -> None:
    for name, entry in archive.head.files.items():
        if name in skipped or name == _UNFINISHED:
            continue
        path = fresh / name
        _make_folders(path.parent, fresh)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o700 if entry.program else 0o600)
            for piece in archive.read(name):
                file.write(piece)


def _make_folders(folder: Path, fresh: Path) -> None:
    """Make `folder` and those between it and `fresh`, for their owner only: `parents=True` gives them other rights."""
    if folder != fresh and not folder.exists():
        _make_folders(folder.parent, fresh)
        folder.mkdir(mode=0o700)


def _stacks_of_another_place(archive: Archive, home: Path) -> frozenset[str]:
    """States name the kubeconfig below the home, so they are of use at the same path only. A lease's next operation
    makes its state anew from the cluster.
    """
    if archive.head.home == str(home):
        return frozenset()
    return frozenset(name for name in archive.head.files if name.startswith(_STACKS))


def _give(fresh: Path, home: Path) -> None:
    """Let root restore for another user: the files belong to the owner of the home that is there."""
    if os.geteuid() or not home.exists():
        return
    owner = home.stat()
    for path in (fresh, *fresh.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _place(fresh: Path, home: Path, exchange: Callable[[Path, Path], bool], *, was_empty: bool) -> Path | None:
    """Make `fresh` the home; returns where the old home is. Raises `BackupError` when somebody has put files into a
    home that was empty: a provider may run there.
    """
    aside = _aside(home) if home.exists() and any(home.iterdir()) else None
    if aside is not None and was_empty:
        raise BackupError(f"files came into AP_HOME={home} meanwhile: does a provider run there? Nothing was restored")
    (fresh / _UNFINISHED).unlink()
    try:
        swapped = aside is not None and exchange(fresh, home)
        if not swapped:
            _rename(fresh, home, aside)
    except OSError:
        (fresh / _UNFINISHED).touch()
        raise
    if aside is not None and swapped:
        fresh.rename(aside)
    _settle(home.parent)
    return aside


def _rename(fresh: Path, home: Path, aside: Path | None) -> None:
    """Take the place of nothing, of an empty folder, or of a home on a file system that cannot exchange folders: then
    there is no home for a moment.
    """
    if aside is not None:
        home.rename(aside)
    try:
        fresh.rename(home)
    except OSError:
        if aside is not None:
            aside.rename(home)
        raise


def _aside(home: Path) -> Path:
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (f"{home.name}.before-{at}{suffix}" for suffix in ("", *(f"-{number}" for number in range(1, 1000))))
    return next(path for name in names if not os.path.lexists(path := home.with_name(name)))


def _settle(folder: Path) -> None:
    """Write a rename to the disk."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cannot(home: Path, error: OSError) -> str:
    return (
        f"AP_HOME={home} cannot be restored: {error.filename or home.parent}: {error.strerror}. A home is replaced "
        f"whole, by a rename in {home.parent}: restore as a user who may write there (root gives the files to the "
        "owner of the home), or set AP_HOME to a folder below"
    )
