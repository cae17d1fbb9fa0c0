"""Processes of an engine, found by a mark in their environment: workers, command lines, plugins.

The command line puts plugins into process groups of their own and an orphaned one goes on for more than 20 s
(toolchain.md §3, killed runs 5): neither groups nor parents are enough to find what a killed run has left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["DATA_MARK", "STACK_MARK", "alive", "command_name", "end", "survivors"]

DATA_MARK = "LESSOR_ENGINE_DATA"
STACK_MARK = "LESSOR_ENGINE_STACK"


def survivors(data: Path, stack: str | None = None) -> list[int]:
    """Living processes of the engine in `data` (of one stack), the calling one left out."""
    marks = {f"{DATA_MARK}={data}".encode()}
    if stack is not None:
        marks.add(f"{STACK_MARK}={stack}".encode())
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and marks <= _environment(pid) and alive(pid)]


def alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in ("Z", "X")


def command_name(pid: int) -> str:
    """The first 15 characters of the program's name, empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def end(pids: Iterable[int], *, grace: float = 5.0) -> None:
    """SIGINT, which the command line answers by releasing its lock; SIGKILL for what is left after `grace` seconds."""
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


def _environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:  # gone, or another user's
        return set()
