"""Processes as /proc shows them, and the processes of an engine: workers, command lines, plugins.

The processes of an engine carry a mark in their environment; workers have it on their command line too.
The command line puts plugins into process groups of their own, and an orphaned plugin runs on for more than 20 s
(toolchain.md §3, killed runs 5): neither groups nor parents are enough to find the processes of a killed run.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "DATA_MARK",
    "LOCKING",
    "STACK_MARK",
    "alive",
    "command_name",
    "end",
    "environment",
    "memory_bytes",
    "other_pids",
    "parent",
    "survivors",
]

DATA_MARK = "LESSOR_ENGINE_DATA"
STACK_MARK = "LESSOR_ENGINE_STACK"
LOCKING = frozenset({"pulumi", "lessor-engine"})
"""Names of the programs that lock a stack: the command line and the resident engine."""
_ENDED = ("Z", "X")


def survivors(data: Path, stack: str | None = None) -> list[int]:
    """Ids of the living processes of the engine in `data` (of one stack), without the calling process."""
    marks = {f"{DATA_MARK}={data}".encode()}
    if stack is not None:
        marks.add(f"{STACK_MARK}={stack}".encode())
    return [pid for pid in other_pids() if marks <= environment(pid) | _arguments(pid) and alive(pid)]


def other_pids() -> list[int]:
    """Every process id except the calling process's; empty where there is no /proc."""
    try:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != os.getpid()]


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    return _stat(pid)[0] not in _ENDED


def parent(pid: int) -> int:
    """The id of the parent process; 0 when the process is gone or a zombie."""
    state, parent_pid = _stat(pid)
    return 0 if state in _ENDED else int(parent_pid)


def command_name(pid: int) -> str:
    """The first 15 characters of the program's name, empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def end(pids: Iterable[int], *, grace: float = 5.0) -> None:
    """Send SIGINT, which the command line answers by releasing its lock; SIGKILL to processes that live after `grace`
    seconds.
    """
    waiting = list(pids)
    _signal(waiting, signal.SIGINT)
    deadline = time.monotonic() + grace
    while (waiting := [pid for pid in waiting if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal(waiting, signal.SIGKILL)
    while any(alive(pid) for pid in waiting) and time.monotonic() < deadline + 5:
        time.sleep(0.02)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def environment(pid: int) -> set[bytes]:
    """`NAME=value` of each variable; empty for zombies, for other users' processes and for those that are gone."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _arguments(pid: int) -> set[bytes]:
    """The words of the command line. A process that forbids dumps hides its environment, and has its mark here."""
    try:
        return set(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
    except OSError:
        return set()


def memory_bytes(pid: int) -> int:
    """Resident memory of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _stat(pid: int) -> tuple[str, str]:
    """State and parent of a process; `X` and 0 when it is gone. The name before them may hold brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "X", "0"
    state, parent_pid, *_ = text.rpartition(")")[2].split()
    return state, parent_pid
