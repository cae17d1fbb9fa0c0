"""Files that commands read: a path, or `-` for standard input, never more of them than a document may have."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

__all__ = ["read_input"]


def read_input(file: str | Path, *, limit: int) -> bytes:
    """The content; at most `limit` + 1 bytes, so that the caller sees that it is too long. Raises `OSError`.

    The limit also ends the reading of a device or a pipe that never ends.
    """
    if str(file) != "-":
        with Path(file).open("rb") as stream:
            return stream.read(limit + 1)
    if sys.stdin is None:  # it was closed before Python started
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer.read(limit + 1)
