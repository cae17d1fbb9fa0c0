"""The service of an adopted lease: another provider made its objects, and they stay as found until the tenant's next
manifest.

Until then nothing is written to them, so that the other provider can take the lease back. The fields of the objects are
taken over just before the first update: an apply removes only what its own manager has set.
"""

from __future__ import annotations

from components.labels import AKASH
from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.lifecycle.drift import KINDS
from provider.lifecycle.lease_claims import ClaimedSpec, without_claims
from provider.lifecycle.lease_hosts import spec_hosts
from provider.lifecycle.parts import Parts
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.stored_lease import StoredLease
from provider.protocols import Cluster
from provider.records.manifests import ManifestRecord

__all__ = ["adopted_version", "take_fields"]


async def adopted_version(parts: Parts, seen: StoredLease, record: ManifestRecord, spec: LeaseSpec) -> ClaimedSpec:
    """The version of an adopted lease whose tenant has sent nothing new: as found, without the hostnames that were
    migrated away. Nothing is claimed while the claims are those of the version. Raises what `LeaseClaims.take` raises.
    """
    applied = seen.applied
    if await parts.claims.match(spec):
        return ClaimedSpec(spec, applied.withheld, moved=applied.moved)
    pools = {leased.sharing_key: leased.pool for leased in spec.leased_ips}
    inputs = SpecInputs(record, spec, applied.withheld, form=spec.form, moved=applied.moved, pools=pools)
    claimed = await parts.claims.take(inputs, parts.specs)
    as_found = without_claims(spec, frozenset(spec_hosts(spec) - spec_hosts(claimed.spec)))
    return ClaimedSpec(
        as_found, claimed.withheld, claimed.remarks, claimed.waits_for, claimed.soon, claimed.moved, claimed.moves
    )


async def take_fields(cluster: Cluster, spec: LeaseSpec) -> None:
    """Take over the fields that the other provider owns in the objects of `spec`. Raises `ClusterError`."""
    for obj in lease_objects(spec):
        meta = obj["metadata"]
        await cluster.take_fields(KINDS[obj["kind"]], meta["name"], label=AKASH, namespace=meta.get("namespace"))
