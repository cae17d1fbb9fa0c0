"""The folder of a demo: usable, and of one running demo only."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devnet.errors import DevnetError
from devnet.folders import made_folder

__all__ = ["check_folder", "demo_folder"]

_MARKS = ("controlplane", "borrowed.json", "cluster.kubeconfig", "provider.log")
"""Any of these in a folder shows that an earlier demo made the folder."""


def check_folder(data: Path) -> None:
    """Make the folder if it is missing. Raises `DevnetError` unless a demo may write it, and it is empty or an earlier
    demo's.
    """
    found = {path.name for path in made_folder(data).iterdir()}
    if found and not found.intersection(_MARKS):
        raise DevnetError(f"{data} holds other files than those of an earlier demo; name an empty folder by --data")


@contextmanager
def demo_folder(data: Path) -> Iterator[None]:
    """Hold the folder, which exists, in the block. Raises `DevnetError` while another demo holds it.

    The kernel ends the hold with the process. The lock is on the folder itself, so that no file in it is one's own.
    """
    handle = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, data)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, data: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DevnetError(
            f"another demo runs in {data}: end it with Ctrl-C, or name another folder by --data"
        ) from None
