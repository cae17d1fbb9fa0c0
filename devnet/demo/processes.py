"""The programs that a process started, sampled every 10 ms so that short-lived ones are seen too."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

__all__ = ["descendants", "programs_running", "programs_started"]

_SAMPLE_S = 0.01


async def programs_started(ancestor: int, *, seconds: float) -> set[str]:
    """Names of the programs that new descendants of `ancestor` ran in the next `seconds`, except Python and Lessor."""
    earlier, seen = frozenset(descendants(ancestor)), set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen |= {name for pid, name in descendants(ancestor).items() if pid not in earlier}
        await asyncio.sleep(_SAMPLE_S)
    return _without_python(seen)


def programs_running(ancestor: int) -> set[str]:
    """Names of the programs that descendants of `ancestor` run now, except Python and Lessor."""
    return _without_python(set(descendants(ancestor).values()))


def _without_python(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("python") and name != "lessor"}


def descendants(ancestor: int) -> dict[int, str]:
    """Ids and names of the living processes that `ancestor` has started, and those that these have started."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            name, fields = stat.partition("(")[2].rpartition(")")[::2]
            parents[int(entry.name)] = (int(fields.split()[1]), name)
    found = {ancestor}
    while new := {pid for pid, (parent, _) in parents.items() if parent in found} - found:
        found |= new
    return {pid: parents[pid][1] for pid in found - {ancestor}}
