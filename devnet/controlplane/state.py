"""The state that a supervisor publishes: one JSON file in the data folder, replaced atomically."""

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
    """`pid` and `since` (clock ticks since boot) identify the supervisor; `members` are its children by name."""

    phase: Phase
    pid: int
    since: int
    api_server: str = ""
    problem: str = ""
    members: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def supervised(self) -> bool:
        """Whether the supervisor still runs; its children end with it."""
        return alive(self.pid, since=self.since)


def write_state(data: Path, state: State) -> None:
    """Replace the state; readers see the old or the new one, never a part."""
    partial = data / f"{_NAME}.{os.getpid()}"
    partial.write_text(json.dumps(dataclasses.asdict(state)))
    partial.replace(data / _NAME)


def read_state(data: Path) -> State | None:
    """The published state; None if there is none, or if the file is not a valid state."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return State(**json.loads((data / _NAME).read_bytes()))
    return None
