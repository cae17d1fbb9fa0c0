"""`lifecycle.parts.MakeLeaseSpec` of a plain provider."""

from __future__ import annotations

from collections.abc import Mapping

from lease.build import SpecSettings, lease_spec
from lease.spec import ClusterFacts, LeaseSpec
from provider.lifecycle.parts import MakeLeaseSpec
from provider.records.manifests import ManifestRecord

__all__ = ["spec_maker"]


def spec_maker(cluster: ClusterFacts, settings: SpecSettings | None = None) -> MakeLeaseSpec:
    """Of these facts; without `settings` those of nobody in particular."""
    chosen = settings or SpecSettings()

    def make(
        record: ManifestRecord, *, withheld: frozenset[str], addresses: Mapping[str, str], previous: LeaseSpec | None
    ) -> LeaseSpec:
        return lease_spec(
            lease=record.lease,
            group=record.group,
            resource_version=record.resource_version,
            placements=record.placements,
            addresses=addresses,
            cluster=cluster,
            settings=chosen,
            withheld=withheld,
            previous=previous,
        )

    return make
