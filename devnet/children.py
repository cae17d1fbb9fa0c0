"""Child processes that end with their parent process, even if the parent is killed.

The kernel sends the child SIGKILL when the *thread* that started it ends (prctl(2), PR_SET_PDEATHSIG). Start
long-lived children from a main thread only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

__all__ = ["OWNER", "alive", "bound_to_parent", "cpu_seconds", "start_bound", "started_at"]

OWNER = "LESSOR_DEVNET_OWNER"
"""The environment variable with the pid of a process that a control plane must not outlive."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def start_bound(
    argv: Sequence[str | Path],
    *,
    output: IO[bytes],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, stdout and stderr to `output`, bound to the life of the calling thread."""
    return subprocess.Popen(
        [str(part) for part in argv],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C in the terminal reaches only the parent, which stops its children in order
        preexec_fn=bound_to_parent(),  # noqa: PLW1509  between fork and exec: two system calls, no locks
    )


def bound_to_parent(*, seen_as: int | None = None) -> Callable[[], None]:
    """A `preexec_fn` that binds the child to the life of the calling thread.

    `seen_as`: the id that the child's PID namespace gives the parent, when that is another one than the parent's.
    """
    parent = os.getpid() if seen_as is None else seen_as

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # the parent ended between fork and prctl: no signal will come
            os._exit(1)

    return bind


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name; empty if there is no such process (proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def started_at(pid: int) -> int:
    """The start time of a process in clock ticks since boot, 0 if there is none. It distinguishes reused pids."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and of the descendants that it waited for; 0 if there is no such process."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def alive(pid: int, *, since: int = 0) -> bool:
    """Whether the process runs (a zombie does not) and, with `since`, has that start time."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX" and (not since or int(fields[19]) == since)
