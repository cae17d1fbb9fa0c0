"""What a supervisor tells the rest of the world: one JSON file in the data folder, replaced as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from devnet.children import alive

__all__ = ["Phase", "State", "read_state", "write_state"]

Phase = Literal["starting", "ready", "stopping", "stopped", "failed"]
_NAME = "state.json"


@dataclasses.dataclass(frozen=True)
class State:
    """`pid` and `since` (clock ticks since boot) name the supervisor; `members` are its children by name."""

    phase: Phase
    pid: int
    since: int
    api_server: str = ""
    problem: str = ""
    members: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def supervised(self) -> bool:
        """Whether that supervisor is still there; without it nothing else is (its children die with it)."""
        return alive(self.pid, since=self.since)


def write_state(data: Path, state: State) -> None:
    """Readers see the old state or the new one, never a part."""
    partial = data / f"{_NAME}.{os.getpid()}"
    partial.write_text(json.dumps(dataclasses.asdict(state)))
    partial.replace(data / _NAME)


def read_state(data: Path) -> State | None:
    """None when no supervisor ever ran there, or the file is not one of ours."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return State(**json.loads((data / _NAME).read_bytes()))
    return None
