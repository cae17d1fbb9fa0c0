"""Folders that the user names for the devnet's files."""

from __future__ import annotations

import os
from pathlib import Path

from devnet.errors import DevnetError

__all__ = ["made_folder"]


def made_folder(data: Path) -> Path:
    """The folder's absolute path; a missing folder is made. Raises `DevnetError` unless it can be written."""
    data = data.absolute()
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(data, error.strerror) from None
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(data, "no permission to read and write it")
    return data


def _unusable(data: Path, problem: str | None) -> DevnetError:
    return DevnetError(f"{data} cannot be used ({problem}); name another folder by --data")
