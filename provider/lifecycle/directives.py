"""Directives: what a restart must not forget of the teardown brake, of operators' decisions, of leases without a
manifest and of notices.

Without directives every restart would grant the brake's allowance again, ask an operator again who has decided, and
give every lease without a manifest its whole time again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lease.ids import LeaseId

__all__ = ["Directive", "DirectiveKind", "DirectiveStore", "NoDirectiveStore"]


class DirectiveKind(StrEnum):
    HELD = "held"
    """The brake holds the lease until an operator releases the brake."""
    LET = "let"
    """The brake allowed the removal without evidence of the end; it counts against the brake's window from `at`."""
    MAY_GO = "may go"
    """There is evidence of the end, or an operator released the lease; the brake is not asked."""
    CALLED_CLOSED = "condemned"
    """An operator says that the lease has ended; this counts until the chain calls the lease alive."""
    AWAITED = "awaited"
    """The lease waits for its first manifest since `at`, when this provider first knew of the lease."""
    SERVED = "served"
    """The lease waits for a manifest although this provider has served one: the cluster lost it."""
    NOTICE = "notice"
    """There is evidence that the provider has announced the reclamation of the lease; its block may be pruned later."""


@dataclass(frozen=True, slots=True, order=True)
class Directive:
    """One directive about one lease; `at` in Unix seconds."""

    lease: LeaseId
    kind: DirectiveKind
    at: float


class DirectiveStore(Protocol):
    """Where directives are kept. A store logs its own failures; a failed store loses directives, never a lease."""

    async def load(self) -> Collection[Directive] | None:
        """All directives; None when they cannot be read now."""
        ...

    async def save(self, directives: Collection[Directive]) -> bool:
        """Replace all directives. Returns whether they were written."""
        ...


class NoDirectiveStore:
    """Keeps nothing: a restart begins without directives."""

    async def load(self) -> Collection[Directive]:
        return ()

    async def save(self, directives: Collection[Directive]) -> bool:
        return True
