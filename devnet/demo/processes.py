"""Which programs a process started: looked at often, so that a short-lived one is seen too."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

__all__ = ["programs_running", "programs_started"]

_LOOK_SECONDS = 0.01


async def programs_started(ancestor: int, *, seconds: float) -> set[str]:
    """Names of the programs that new descendants of `ancestor` ran in the next `seconds`, besides Python itself."""
    there, seen = frozenset(_descendants(ancestor)), set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen |= {name for pid, name in _descendants(ancestor).items() if pid not in there}
        await asyncio.sleep(_LOOK_SECONDS)
    return _besides_python(seen)


def programs_running(ancestor: int) -> set[str]:
    """Names of the programs that descendants of `ancestor` run now, besides Python itself."""
    return _besides_python(set(_descendants(ancestor).values()))


def _besides_python(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("python") and name != "lessor"}


def _descendants(ancestor: int) -> dict[int, str]:
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
