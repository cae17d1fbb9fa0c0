"""Whether a child process still runs, as the kernel says it: asyncio learns of a death a moment later."""

from __future__ import annotations

import os
from asyncio.subprocess import Process

__all__ = ["runs"]


def runs(process: Process) -> bool:
    """A run that is told the port of a dead process fails. The dead child is left to asyncio to be waited for."""
    if process.returncode is not None:
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:  # waited for already
        return False
