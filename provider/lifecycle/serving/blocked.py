"""A lease whose newest version cannot even be made: its manifest asks for a hostname of another owner, for an address
where none is free, or for what its reservation does not have.

The version that was applied last is kept up meanwhile. What was migrated away from it is given up.
"""

from __future__ import annotations

from dataclasses import replace

from lease.errors import SpecRefused
from lease.spec import LeaseSpec
from provider.claims.addresses import AddressesExhaustedError
from provider.claims.hostnames import HostnameRefusedError
from provider.lifecycle.drift import Drift
from provider.lifecycle.lease_claims import ClaimedSpec, without_claims
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.view import LeaseView
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.stored_lease import StoredLease
from provider.records.manifests import BadRecordError, ManifestRecord

__all__ = ["BLOCKING", "blocked_outcome", "blocked_view", "still_blocked"]

BLOCKING = (HostnameRefusedError, AddressesExhaustedError, SpecRefused)
"""What prevents a version from being made, and not the last complete one from being kept up."""
_AGAIN_S = 30.0


def blocked_outcome(error: Exception) -> Outcome:
    """The outcome of a check that ended with one of `BLOCKING`, or with a record that cannot be read."""
    remark = _remark(error)
    return Outcome(Phase.BLOCKED, str(error), again_in=_AGAIN_S, remark=remark, of_the_provider=bool(remark))


async def blocked_view(
    parts: Parts, seen: StoredLease, record: ManifestRecord, drift: Drift, *, runs: LeaseSpec, why: str
) -> LeaseView:
    """The lease with `runs`, its last complete version, in place of the newest. Raises `ClusterError`."""
    gone, moves = await parts.claims.migrated(runs)
    applied = seen.applied
    newest = ClaimedSpec(without_claims(runs, gone), applied.withheld, moved=applied.moved | gone, moves=moves)
    return LeaseView(parts, record.lease, record, applied, newest, seen.namespace, drift, blocked=why)


def still_blocked(outcome: Outcome, blocked: Outcome) -> Outcome:
    """The outcome of the upkeep of what runs, with why the newest version is blocked."""
    again_in = min(_AGAIN_S, _AGAIN_S if outcome.again_in is None else outcome.again_in)
    return replace(
        blocked,
        reason="; ".join(filter(None, (blocked.reason, outcome.reason))),
        again_in=None if outcome.retry else again_in,
        retry=outcome.retry,
        of_the_provider=blocked.of_the_provider or outcome.of_the_provider,
    )


def _remark(error: Exception) -> str:
    """What the tenant reads in place of a text about the provider's own settings and records."""
    if isinstance(error, AddressesExhaustedError):
        return "no leased address is free; the lease gets the first one that is"
    return "the provider cannot read its record of the lease" if isinstance(error, BadRecordError) else ""
