"""The parts that a check of a lease works with, put together once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lease.ids import LeaseId, OrderId
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.spec_maker import SpecMaker
from provider.lifecycle.state import STACK_RESULT, Outcome, StackReport
from provider.protocols import Bus, Cluster, StackEngine
from stacks.common import StackResult

__all__ = ["Parts"]


@dataclass(frozen=True, slots=True)
class Parts:
    """`release` gives a reservation back to the ledger; releasing what is not reserved does nothing. `show` publishes
    what a check does while it goes on.
    """

    cluster: Cluster
    engine: StackEngine
    bus: Bus
    config: LifecycleConfig
    claims: LeaseClaims
    specs: SpecMaker
    release: Callable[[OrderId], object]
    show: Callable[[LeaseId, Outcome], None] = field(default=lambda lease, outcome: None)

    def report(self, lease: LeaseId, result: StackResult) -> StackResult:
        """Publish the engine's result and return it."""
        self.bus.publish(STACK_RESULT, StackReport(lease, result))
        return result
