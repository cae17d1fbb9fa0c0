"""The choice of the lease that gets the volumes of a lease that has ended, at an operator's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lease.errors import SpecRefused
from lease.ids import LeaseId
from provider.lifecycle.parts import Parts
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import LeaseStatus, Phase
from provider.lifecycle.stored_lease import read_stored_lease
from provider.protocols import Clock
from provider.volumes.quarantine import Quarantine
from provider.volumes.restore import NotRestored, RestoreRequest, claims_of, restore

__all__ = ["restore_volumes", "target_of"]

_NOT_ALIVE = (Phase.UNKNOWN, Phase.CLOSING, Phase.QUARANTINED, Phase.CLOSED)


async def restore_volumes(
    parts: Parts,
    request: RestoreRequest,
    *,
    statuses: Mapping[LeaseId, LeaseStatus],
    quarantine: Quarantine,
    clock: Clock,
) -> tuple[LeaseId, str]:
    """Give the volumes away. Returns the lease that gets them, and what was done in one line. The provider chooses the
    lease when `request.into` equals `request.lease`.

    Raises `NotRestored` with what to do instead, `ClusterError`, and `BadRecordError`.
    """
    request = replace(request, into=target_of(request, statuses))
    wanted = await _wanted(parts, request.into)
    return request.into, await restore(parts.cluster, request, wanted=wanted, quarantine=quarantine, clock=clock)


def target_of(request: RestoreRequest, statuses: Mapping[LeaseId, LeaseStatus]) -> LeaseId:
    """The lease that gets the volumes: the named one, the volumes' own, or the tenant's only one. It must be alive.
    Raises `NotRestored`.
    """
    alive = sorted(lease for lease, status in statuses.items() if status.phase not in _NOT_ALIVE)
    if request.into in alive:
        return request.into
    if request.into != request.lease:
        raise NotRestored(f"{request.into} does not run here: only a lease that the chain calls alive gets volumes")
    own = [lease for lease in alive if lease.owner == request.lease.owner]
    if len(own) != 1:
        raise NotRestored(f"name the lease that gets the volumes with --into; {_listed(own)} of this tenant")
    return own[0]


def _listed(leases: Sequence[LeaseId]) -> str:
    return "running are " + ", ".join(map(str, leases)) if leases else "no lease runs"


async def _wanted(parts: Parts, lease: LeaseId) -> dict[str, dict[str, Any]] | None:
    """The claims of volumes that the lease's StatefulSets make, None while its manifest is not known."""
    seen = await read_stored_lease(parts.cluster, lease, records=parts.config.records)
    if seen.applied.spec is not None:
        return claims_of(seen.applied.spec)
    if seen.manifest is None:
        return None
    try:
        made = parts.specs.make(SpecInputs(seen.manifest, withheld=seen.applied.withheld))
    except SpecRefused:
        return None  # an address is not chosen yet; the cluster still binds only what is large enough
    return claims_of(made)
