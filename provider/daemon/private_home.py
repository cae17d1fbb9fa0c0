"""The home folder and the keys beside it are readable for the provider's user only: made so, corrected, or refused."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import structlog
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from provider.errors import SettingsError
from provider.settings import Settings
from stacks.common import close_path, open_paths

__all__ = ["home_problems", "prepare_home"]

_log = structlog.get_logger("lessor")


def prepare_home(settings: Settings) -> None:
    """Make the home with mode 0700, and take from other users what they may read there: of an older version, or of an
    operator who made the folder. New files get no rights for others, by the umask that child processes inherit.

    Raises `SettingsError` with the remedy for what cannot be corrected: a folder or file of another user.
    """
    os.umask(0o077)
    home = settings.home
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise SettingsError(f"AP_HOME={home}: {error.strerror}; it must be a folder that can be written") from error
    for path in _open_to_others(settings):
        _close(path, home)


def home_problems(settings: Settings) -> tuple[str, ...]:
    """What other users of the machine may read of the provider's, with the remedy. Changes nothing."""
    return tuple(_problem(path, settings.home) for path in _open_to_others(settings))


def _open_to_others(settings: Settings) -> list[Path]:
    found = list(open_paths(settings.home)) if settings.home.exists() else []
    for path in (settings.store_key, settings.stack_key_file, _database(settings)):
        if path is not None and path.is_file() and path not in found and stat.S_IMODE(path.stat().st_mode) & 0o077:
            found.append(path)
    return found


def _database(settings: Settings) -> Path | None:
    """The file of an SQLite database."""
    try:
        url = make_url(settings.database_url)
    except ArgumentError:
        return None
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _close(path: Path, home: Path) -> None:
    before = stat.S_IMODE(path.stat().st_mode)
    try:
        if path.stat().st_uid != os.geteuid():
            raise PermissionError
        close_path(path)
    except OSError:
        raise SettingsError(_problem(path, home)) from None
    _log.warning("home.mode_corrected", path=str(path), before=f"{before:04o}", now=f"{before & ~0o077:04o}")


def _problem(path: Path, home: Path) -> str:
    found = path.stat()
    name = f"AP_HOME={home}" if path == home else str(path)
    if found.st_uid != os.geteuid():
        remedy = "name a folder of your own" if path == home else f"run: chown {os.geteuid()} {path}; chmod go= {path}"
        return f"{name} belongs to user {found.st_uid}, the provider runs as {os.geteuid()}; {remedy}"
    return f"{name} has mode {stat.S_IMODE(found.st_mode):04o}, other users may use it; run: chmod go= {path}"
