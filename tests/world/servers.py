"""Servers of Debian's packages that a test starts for itself: where their programs are, and what to do without them."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

__all__ = ["free_port", "server_program"]


def server_program(name: str, *, package: str, folders: tuple[Path, ...] = ()) -> str:
    """The path of a server's program. Without it the test is skipped, and fails where CI is true."""
    path = shutil.which(name, path=os.pathsep.join((*map(str, folders), "/usr/sbin", os.environ.get("PATH", ""))))
    if path is None:
        refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        refuse(f"{name} is not here; install Debian's {package}")
    return path


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
