"""Temporary folders that are removed with the process that made them, also when it could not remove them itself.

Their names hold the process id. The next process that makes one removes those of dead processes, which a kill leaves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stacks.common.processes import alive, end, survivors

__all__ = ["scratch"]


@contextmanager
def scratch(prefix: str, *, within: Path | None = None) -> Iterator[Path]:
    """A folder `<prefix><pid>-…` below `within` (the system's folder for temporary files)."""
    place = within or Path(tempfile.gettempdir())
    _sweep(prefix, place)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", dir=place, ignore_cleanup_errors=True) as made:
        yield Path(made)


def _sweep(prefix: str, place: Path) -> None:
    """Remove folders of the own user whose process is gone, and end the processes that it had started on them."""
    for folder in place.glob(f"{prefix}*-*"):
        pid = folder.name.removeprefix(prefix).split("-", 1)[0]
        if pid.isascii() and pid.isdigit() and not alive(int(pid)) and _is_of_own_user(folder):
            end(survivors(folder / "engine"))
            shutil.rmtree(folder, ignore_errors=True)


def _is_of_own_user(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
    except OSError:
        return False
