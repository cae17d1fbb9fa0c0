"""An operator's word: the volumes of a lease that has ended go to another one (which, and may they?)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lease.errors import SpecRefused
from lease.ids import LeaseId
from provider.lifecycle.observation import observe
from provider.lifecycle.parts import Parts
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import LeaseStatus, Phase
from provider.protocols import Clock
from provider.volumes.quarantine import Quarantine
from provider.volumes.restore import NotRestored, Wish, claims_of, restore

__all__ = ["restore_volumes", "target_of"]

_NOT_ALIVE = (Phase.UNKNOWN, Phase.CLOSING, Phase.QUARANTINED, Phase.CLOSED)


async def restore_volumes(
    parts: Parts, wish: Wish, *, statuses: Mapping[LeaseId, LeaseStatus], quarantine: Quarantine, clock: Clock
) -> tuple[LeaseId, str]:
    """The lease that gets them, and what was done in a line. `wish.into` equal to `wish.lease` leaves the choice to us.

    Raises `NotRestored` with what to do instead, `ClusterError`, and `BadRecordError`.
    """
    wish = replace(wish, into=target_of(wish, statuses))
    wanted = await _wanted(parts, wish.into)
    return wish.into, await restore(parts.cluster, wish, wanted=wanted, quarantine=quarantine, clock=clock)


def target_of(wish: Wish, statuses: Mapping[LeaseId, LeaseStatus]) -> LeaseId:
    """A lease that is alive: the one that is named, the volume's own, or the tenant's only one."""
    alive = sorted(lease for lease, status in statuses.items() if status.phase not in _NOT_ALIVE)
    if wish.into in alive:
        return wish.into
    if wish.into != wish.lease:
        raise NotRestored(f"{wish.into} does not run here: only a lease that the chain calls alive gets volumes")
    own = [lease for lease in alive if lease.owner == wish.lease.owner]
    if len(own) != 1:
        raise NotRestored(f"name the lease that gets the volumes with --into; {_listed(own)} of this tenant")
    return own[0]


def _listed(leases: Sequence[LeaseId]) -> str:
    return "running are " + ", ".join(map(str, leases)) if leases else "no lease runs"


async def _wanted(parts: Parts, lease: LeaseId) -> dict[str, dict[str, Any]] | None:
    """The claims that its StatefulSets make, None while the tenant has not said what it is to run."""
    seen = await observe(parts.cluster, lease, records=parts.config.records)
    if seen.applied.spec is not None:
        return claims_of(seen.applied.spec)
    if seen.manifest is None:
        return None
    try:
        made = parts.specs.make(SpecInputs(seen.manifest, withheld=seen.applied.withheld))
    except SpecRefused:
        return None  # an address is not chosen yet; the cluster still binds only what is large enough
    return claims_of(made)
