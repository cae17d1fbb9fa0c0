"""Is a failure the tenant's or ours? Only ours is tried again by itself (docs/architecture.md §2, rule 5)."""

from __future__ import annotations

from random import Random

from provider.waits import GrowingPause, jittered
from stacks.common import StackResult, cause_of

__all__ = ["ours", "pause"]

_LONGEST_PAUSE_S = 300.0


def ours(result: StackResult) -> bool:
    """Whether a failed operation may succeed unchanged later. A cause that nobody knows is a refusal: the same again
    would be refused again.
    """
    cause = result.cause or cause_of(result.error)
    return cause is not None and cause.ours


def pause(attempts: int, *, random: Random, longest: float = _LONGEST_PAUSE_S) -> float:
    """Seconds before try `attempts` + 1: 1, 2, 4 … `longest`, each cut by up to a half, so that leases spread."""
    return jittered(GrowingPause(1.0, longest).after(attempts), random=random)
