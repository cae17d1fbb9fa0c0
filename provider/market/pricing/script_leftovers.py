"""Processes that a price script leaves behind, also those that left its session: they end at its time limit.

Each run carries a name in its environment, which children inherit; what carries it is found in /proc. While the script
itself still runs its descendants are found by parentage too. Only a child that is both orphaned and has dropped its
environment is not known as ours, which takes intent, and a script is the operator's own. To be its reaper each script
would need a call between fork and exec, which may block a process with threads, and this daemon with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RUN_VARIABLE", "Leftovers", "descendants", "end_all", "new_run", "of_run"]

RUN_VARIABLE = "LESSOR_PRICE_RUN"
_PROC = Path("/proc")
_ROUNDS = 5
"""A process may start another while it is being looked for."""


@dataclass(slots=True)
class Leftovers:
    """Runs whose limit comes; those of one second are looked for together."""

    _due: dict[int, set[str]] = field(default_factory=dict)
    _sweeps: set[asyncio.Task[None]] = field(default_factory=set)

    def at(self, deadline: float, run: str) -> None:
        """End what is left of `run` at `deadline` of the running loop."""
        loop, second = asyncio.get_running_loop(), int(deadline) + 1
        if second not in self._due:
            self._due[second] = set()
            loop.call_at(max(deadline, second), self._begin, second)
        self._due[second].add(run)

    def _begin(self, second: int) -> None:
        task = asyncio.ensure_future(asyncio.to_thread(end_all, self._due.pop(second)))
        self._sweeps.add(task)
        task.add_done_callback(self._sweeps.discard)


def new_run() -> str:
    """A name that no other run has."""
    return secrets.token_hex(16)


def end_all(runs: set[str], root: int | None = None) -> None:
    """Kill whatever carries one of these names, and what descends from `root`. Reads all of /proc: not for the loop."""
    for _ in range(_ROUNDS):
        found = of_run(runs) | (descendants(root) if root is not None else set())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def of_run(runs: set[str]) -> set[int]:
    """Living processes with one of these names in their environment; none where there is no /proc."""
    wanted = {f"{RUN_VARIABLE}={run}".encode() for run in runs}
    return {pid for pid in _pids() if wanted & _environment(pid)}


def descendants(root: int) -> set[int]:
    """Children of `root`, their children, and so on; not `root` itself."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid))}
    found: set[int] = set()
    layer = {root}
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer} - found
        found |= layer
    return found


def _pids() -> list[int]:
    try:
        return [int(one.name) for one in _PROC.iterdir() if one.name.isdigit() and int(one.name) != os.getpid()]
    except OSError:
        return []


def _environment(pid: int) -> set[bytes]:
    """Empty for processes of others, for zombies and for those that have gone."""
    try:
        return set((_PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _parent(pid: int) -> int:
    """0 when it has gone. The name before it may hold anything, brackets too."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
        state, parent = text.rpartition(")")[2].split()[:2]
        return 0 if state == "Z" else int(parent)
    except (OSError, ValueError):
        return 0
