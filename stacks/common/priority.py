"""The urgency of an operation.

It orders the queue of the engine when more operations are requested than can run at once.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Priority"]


class Priority(StrEnum):
    """From the most urgent to the least. Nothing waits for ever: see `stacks.engine.turns`."""

    FIRST = "first deployment"
    """The tenant waits for the first deployment."""
    UPDATE = "update"
    """An earlier version runs meanwhile. Also for operations that only read (a preview)."""
    DESTROY = "destroy"
    """The lease has ended, so nobody pays for it, and others wait for its resources."""
    REPAIR = "drift repair"
