"""A living lease as one check sees it: the records, the newest version with its claims, and what should run now."""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId
from lease.spec import LeaseSpec
from provider.lifecycle.drift import Drift
from provider.lifecycle.lease_claims import ClaimedSpec, without_claims
from provider.lifecycle.parts import Parts
from provider.lifecycle.stored_lease import NamespaceState
from provider.records.applied import Applied, applied_object
from provider.records.manifests import ManifestRecord

__all__ = ["LeaseView", "same"]


@dataclass(frozen=True, slots=True)
class LeaseView:
    """`applied` is the record as it was read; writing the record does not change the view. `blocked`: why the newest
    version cannot even be made; `newest` is then the last complete version, without what was migrated away since.
    """

    parts: Parts
    lease: LeaseId
    record: ManifestRecord
    applied: Applied
    newest: ClaimedSpec
    namespace: NamespaceState
    drift: Drift
    blocked: str = ""

    @property
    def goes_back(self) -> bool:
        """Whether what should run is the last complete version, and not the tenant's newest one."""
        return bool(self.blocked or self.refused)

    @property
    def refused(self) -> str:
        """Why the newest version was refused, empty when it was not tried or not refused."""
        attempt, newest = self.applied.attempt, self.newest.spec
        if self.blocked or attempt is None or not attempt.error:
            return ""
        return attempt.error if attempt.spec_hash in {newest.content_hash(), self._before(newest)} else ""

    def _before(self, newest: LeaseSpec) -> str:
        """The hash of `newest` for the builder that made what runs: a refused version stays refused after an
        upgrade.
        """
        spec = self.applied.spec
        version = spec.builder_version if spec is not None else newest.builder_version
        return newest.model_copy(update={"builder_version": version}).content_hash()

    @property
    def target(self) -> LeaseSpec | None:
        """What should run now: the newest version, or when it was refused the last complete one, without what was
        migrated away since.
        """
        if not self.refused or self.applied.spec is None:
            return self.applied.spec if self.refused else self.newest.spec
        return without_claims(self.applied.spec, self.newest.moved)

    @property
    def known(self) -> bool:
        """Whether the stack is known to be exactly the last complete version, with no attempt since."""
        attempt = self.applied.attempt
        return self.applied.spec is not None and (attempt is None or attempt.restored)

    @property
    def untouched(self) -> bool:
        """Whether what runs is what ran before any attempt: the last complete version, or nothing at all."""
        attempt = self.applied.attempt
        return self.known or (self.applied.fresh and (attempt is None or attempt.restored))

    @property
    def complete(self) -> bool:
        """Whether the stack is known to be the target."""
        spec = self.applied.spec
        return self.known and spec is not None and self.target is not None and same(spec, self.target)

    async def write(self, applied: Applied) -> None:
        """Store the record. Raises `ClusterError`."""
        records = self.parts.config.records
        await self.parts.cluster.apply(applied_object(self.lease, applied, namespace=records))


def same(one: LeaseSpec, other: LeaseSpec) -> bool:
    return one == other or one.content_hash() == other.content_hash()
