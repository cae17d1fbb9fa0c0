"""What reconciling works with, put together once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lease.ids import LeaseId, OrderId
from lease.spec import LeaseSpec
from provider.lifecycle.claims import Claims
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.drift import Drifts
from provider.lifecycle.openings import MakeOpening
from provider.lifecycle.state import STACK_RESULT, Outcome, StackReport
from provider.protocols import Bus, Cluster, StackEngine
from provider.records.manifests import ManifestRecord
from stacks.common import StackResult

__all__ = ["MakeLeaseSpec", "Parts"]


class MakeLeaseSpec(Protocol):
    """`lease.build.lease_spec` with the cluster's facts and the settings already given. Raises `SpecRefused`."""

    def __call__(
        self,
        record: ManifestRecord,
        *,
        withheld: frozenset[str],
        addresses: Mapping[str, str],
        previous: LeaseSpec | None,
    ) -> LeaseSpec: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """`release` gives a reservation back to the ledger; releasing what is not reserved does nothing. `tell` shows what
    a look is doing while it still goes on. `opening`: what is known of a spec when a lease is won; None to open no
    update before its manifest.
    """

    cluster: Cluster
    engine: StackEngine
    bus: Bus
    config: LifecycleConfig
    claims: Claims
    make_spec: MakeLeaseSpec
    release: Callable[[OrderId], object]
    opening: MakeOpening | None = None
    drifts: Drifts = field(default_factory=Drifts)
    tell: Callable[[LeaseId, Outcome], None] = field(default=lambda lease, outcome: None)

    def report(self, lease: LeaseId, result: StackResult) -> StackResult:
        """Publish what the engine did, then hand it on."""
        self.bus.publish(STACK_RESULT, StackReport(lease, result))
        return result
