"""Whether a child process still runs, according to the kernel: asyncio learns of a death a moment later."""

from __future__ import annotations

import os
from asyncio.subprocess import Process

__all__ = ["runs"]


def runs(process: Process) -> bool:
    """Whether the child runs; a command line that got the port of a dead process fails. asyncio still waits for the
    dead child.
    """
    if process.returncode is not None:
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:  # waited for already
        return False
