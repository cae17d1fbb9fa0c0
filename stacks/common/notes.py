"""What a machine has to know of the last operation on a stack when another machine ran it (decision 42)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["StackNote", "StackNotes"]


@dataclass(frozen=True, slots=True)
class StackNote:
    """`machine`: the data folder that ran the last operation. `sound`: the operation ended in order, and the state
    holds what the cluster has. `begun`: objects of runs whose end was not seen, as `begun_objects` writes them.
    """

    machine: str
    sound: bool
    begun: str = ""


class StackNotes(Protocol):
    """The notes, where all machines find them. Each method raises `EngineError` when they cannot be reached."""

    async def read(self, stack: str) -> StackNote | None: ...

    async def write(self, stack: str, note: StackNote) -> None: ...

    async def forget(self, stack: str) -> None: ...
