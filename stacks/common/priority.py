"""How urgent an operation is: what the engine's queue goes by when more is asked for than runs at once."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Priority"]


class Priority(StrEnum):
    """From the most urgent to the least. Nothing waits for ever: see `stacks.engine.turns`."""

    FIRST = "first deployment"
    """A tenant waits for what he has never had."""
    UPDATE = "update"
    """Something of his runs meanwhile; also what only looks (a preview)."""
    DESTROY = "destroy"
    """Nobody pays for it any more, and others wait for its room."""
    REPAIR = "drift repair"
