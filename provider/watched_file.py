"""A file of the operator that is read again when it changes; while it is invalid, its last valid content is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from provider.errors import SettingsError

__all__ = ["file_mark", "watched"]

_log = structlog.get_logger(__name__)
_Content = TypeVar("_Content")


def watched(path: Path, read: Callable[[], _Content], *, what: str) -> Callable[[], _Content]:
    """A function that returns the current content. `read` may raise `SettingsError`; only the first reading passes it
    on. `what` names the content in the log.
    """
    current, seen = read(), file_mark(path)

    def content() -> _Content:
        nonlocal current, seen
        mark = file_mark(path)
        if mark != seen:
            seen = mark
            try:
                current = read()
                _log.info(f"market.{what}_read", path=str(path))
            except SettingsError as error:
                _log.error(f"market.{what}_wrong", problem=str(error), kept="the content that was read last")
        return current

    return content


def file_mark(path: Path) -> tuple[int, ...]:
    """A value that changes when the file does; empty while there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
