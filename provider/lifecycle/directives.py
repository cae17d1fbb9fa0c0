"""What a restart must not forget: what the teardown brake holds and has let go, operators' words, who waits since when.

Without it every restart would grant the brake's allowance anew, ask an operator again who has decided, and give every
lease without a manifest its whole time once more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lease.ids import LeaseId

__all__ = ["Forgetful", "Memory", "Standing", "StandingWord"]


class StandingWord(StrEnum):
    HELD = "held"
    """By the brake, until an operator releases it."""
    LET = "let"
    """Removed without an event of the chain; counts against the brake's window from `at`."""
    MAY_GO = "may go"
    """The chain's event or an operator's word has come; the brake is not asked."""
    CONDEMNED = "condemned"
    """An operator says that it has ended; counts until the chain calls it alive."""
    AWAITED = "awaited"
    """Its first manifest, since `at`: when we first knew of the lease."""


@dataclass(frozen=True, slots=True, order=True)
class Standing:
    """One word about one lease; `at` in Unix seconds."""

    lease: LeaseId
    word: StandingWord
    at: float


class Memory(Protocol):
    """Where it is kept. A store that fails is logged by it and loses a restart's memory, never a lease."""

    async def load(self) -> Collection[Standing] | None:
        """None when it cannot be read now."""
        ...

    async def save(self, standing: Collection[Standing]) -> bool:
        """Replace all of it. Whether it was written."""
        ...


class Forgetful:
    """Keeps nothing: a restart knows nothing of what was before."""

    async def load(self) -> Collection[Standing]:
        return ()

    async def save(self, standing: Collection[Standing]) -> bool:
        return True
