"""Fences around the processes and files of the provider, against other processes and users of the machine."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["close_path", "forbid_dumps", "open_paths"]

_PR_SET_DUMPABLE = 4
_OTHERS = 0o077


def forbid_dumps() -> None:
    """Keep processes of the same user from reading this process's memory and environment in /proc, from attaching to it
    with ptrace, and keep its memory out of core dumps. Root can still do both. Programs that it starts are not covered.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def open_paths(data: Path) -> Iterator[Path]:
    """`data` and what stands in it or in a folder of its engine, as far as other users may read, write or enter it.

    Deeper files are not visited: none of them can be reached once these are closed. Symbolic links are not followed.
    """
    engine = data / "engine"
    for folder in (data, engine, engine / "stacks"):
        if not folder.is_dir():
            continue
        if folder == data and _is_open(folder):
            yield folder
        for entry in sorted(folder.iterdir()):
            if not entry.is_symlink() and _is_open(entry):
                yield entry


def close_path(path: Path) -> None:
    """Take every right of other users away. Raises `OSError` for a path of another user."""
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)


def _is_open(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return bool(stat.S_IMODE(found.st_mode) & _OTHERS) or found.st_uid not in (0, os.geteuid())
