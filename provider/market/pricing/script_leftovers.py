"""Ends the processes that a price script leaves running, also those that left its session, at its time limit.

Each run has a name in its environment, which child processes inherit, and the processes with that name are found in
/proc. While the script itself runs, its descendants are found by their parents too. A process is missed only if it is
orphaned and has removed the name from its environment; that takes intent, and the script is the operator's own.
Becoming the reaper of each script would need a call between fork and exec, which can block a process with threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from dataclasses import dataclass, field

from stacks.common import environment, other_pids, parent

__all__ = ["RUN_VARIABLE", "Leftovers", "descendants", "end_all", "new_run", "of_run"]

RUN_VARIABLE = "LESSOR_PRICE_RUN"
_ROUNDS = 5
"""A process may start another one during the search."""


@dataclass(slots=True)
class Leftovers:
    """Runs whose time limit is still to come. Runs of the same second are searched for together."""

    _due: dict[int, set[str]] = field(default_factory=dict)
    _sweeps: set[asyncio.Task[None]] = field(default_factory=set)

    def at(self, deadline: float, run: str) -> None:
        """End the processes of `run` at `deadline`, a time of the running event loop."""
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
    """Kill the processes of these runs, and the descendants of `root`. Reads all of /proc, so it must run in a
    thread.
    """
    for _ in range(_ROUNDS):
        found = of_run(runs) | (descendants(root) if root is not None else set())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def of_run(runs: set[str]) -> set[int]:
    """The living processes with one of these names in their environment; none without /proc."""
    wanted = {f"{RUN_VARIABLE}={run}".encode() for run in runs}
    return {pid for pid in other_pids() if wanted & environment(pid)}


def descendants(root: int) -> set[int]:
    """Children of `root`, their children, and so on; not `root` itself."""
    parents = {pid: parent_pid for pid in other_pids() if (parent_pid := parent(pid))}
    found: set[int] = set()
    layer = {root}
    while layer:
        layer = {pid for pid, parent_pid in parents.items() if parent_pid in layer} - found
        found |= layer
    return found
