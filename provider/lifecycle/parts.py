"""The parts that a check of a lease works with, put together once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lease.ids import LeaseId, OrderId
from lease.spec import LeaseSpec
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.spec_maker import SpecMaker
from provider.lifecycle.state import STACK_RESULT, Outcome, StackReport
from provider.protocols import Bus, Cluster, StackEngine
from stacks.common import StackResult

__all__ = ["Parts"]


async def _unnoted(spec: LeaseSpec, why: str) -> None:
    """No history is kept."""


@dataclass(frozen=True, slots=True)
class Parts:
    """`release` gives a reservation back to the ledger; releasing what is not reserved does nothing. `show` publishes
    what a check does while it goes on. `note_refusal` records in the history that a version was refused without a run
    of the engine.
    """

    cluster: Cluster
    engine: StackEngine
    bus: Bus
    config: LifecycleConfig
    claims: LeaseClaims
    specs: SpecMaker
    release: Callable[[OrderId], object]
    show: Callable[[LeaseId, Outcome], None] = field(default=lambda lease, outcome: None)
    note_refusal: Callable[[LeaseSpec, str], Awaitable[None]] = _unnoted

    def report(self, lease: LeaseId, result: StackResult) -> StackResult:
        """Publish the engine's result and return it."""
        self.bus.publish(STACK_RESULT, StackReport(lease, result))
        return result
