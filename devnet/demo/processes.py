"""Which programs a process started: looked at often, so that a short-lived one is seen too."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

__all__ = ["programs_started"]

_LOOK_SECONDS = 0.01


async def programs_started(ancestor: int, *, seconds: float) -> set[str]:
    """Names of the programs that descendants of `ancestor` ran in the next `seconds`, besides Python itself."""
    seen: set[str] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen |= _descendants(ancestor)
        await asyncio.sleep(_LOOK_SECONDS)
    return {name for name in seen if not name.startswith("python") and name != "lessor"}


def _descendants(ancestor: int) -> set[str]:
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            name, fields = stat.partition("(")[2].rpartition(")")[::2]
            parents[int(entry.name)] = (int(fields.split()[1]), name)
    found, names = {ancestor}, set()
    grown = True
    while grown:
        new = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        names |= {parents[pid][1] for pid in new}
        found |= new
        grown = bool(new)
    return names
