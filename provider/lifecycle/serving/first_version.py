"""The first version of a lease, when it is refused: what was made of it goes, as an update that fails goes back.

Only a lease on which nothing ran before is treated so. With the record lost, something may run that no record names,
and it stays. Volume claims stay too: the volume behind one may be an old one that `lessor lease restore` has given to
the lease before its manifest came. They count for the lease until it ends, and a next version with the same volumes
uses them.
"""

from __future__ import annotations

from dataclasses import replace

from lease.spec import LeaseSpec
from provider.kube.labels import MANAGED
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.update import error_text
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.stored_lease import NamespaceState, StoredLease
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, STATEFUL_SET
from provider.records.applied import Applied, Attempt, applied_object
from provider.records.manifests import ManifestRecord

__all__ = ["refused_first", "undo_first", "with_freshness", "without_freshness"]


async def with_freshness(cluster: Cluster, seen: StoredLease, namespace: str) -> StoredLease:
    """`seen` with whether nothing of the lease has ever run, found out before the first attempt. Raises
    `ClusterError`.
    """
    if seen.applied != Applied() or (seen.namespace is not NamespaceState.ABSENT and await _runs(cluster, namespace)):
        return seen
    return replace(seen, applied=Applied(fresh=True))


async def without_freshness(cluster: Cluster, seen: StoredLease, newest: LeaseSpec) -> StoredLease:
    """`seen`, no longer fresh when another version than `newest` was begun, its end is unknown, and something runs.
    That version may be complete, so it stays whatever becomes of `newest`. Raises `ClusterError`.
    """
    attempt = seen.applied.attempt
    if not seen.applied.fresh or attempt is None or attempt.error or attempt.spec_hash == newest.content_hash():
        return seen
    if not await _runs(cluster, newest.namespace):
        return seen
    return replace(seen, applied=replace(seen.applied, fresh=False))


async def _runs(cluster: Cluster, namespace: str) -> bool:
    for kind in (DEPLOYMENT, STATEFUL_SET):
        if await cluster.list(kind, namespace=namespace, labels=MANAGED):
            return True
    return False


def refused_first(parts: Parts, applied: Applied, record: ManifestRecord) -> Attempt | None:
    """The attempt when this manifest was refused as the first version, and nothing changed since. Raises
    `SpecRefused`.
    """
    attempt = applied.attempt
    if applied.spec is not None or attempt is None or not attempt.error:
        return None
    return attempt if attempt.spec_hash == parts.specs.unclaimed(record).content_hash() else None


async def undo_first(parts: Parts, applied: Applied, record: ManifestRecord, refused: Attempt) -> Outcome:
    """Remove what was made of a refused first version, once, and give its claims back. Namespace and policies stay for
    the next version. Raises `ClusterError`.
    """
    lease = record.lease
    if not refused.restored:
        bare = _bare(parts.specs.unclaimed(record))
        parts.show(lease, Outcome(Phase.FAILED, refused.error))
        if bare.namespace in await parts.engine.stacks():
            result = parts.report(lease, await parts.engine.up(bare))
            if not result.ok:
                problem = f"{refused.error}; what was made of it cannot be removed: {error_text(result.error, bare)}"
                return Outcome(Phase.FAILED, problem, retry=True, remark=refused.error)
        await parts.claims.release_all(lease)
        await parts.claims.remove_unused_pools()
        undone = replace(applied, attempt=replace(refused, restored=True))
        await parts.cluster.apply(applied_object(lease, undone, namespace=parts.config.records))
    return Outcome(Phase.FAILED, refused.error)


def _bare(spec: LeaseSpec) -> LeaseSpec:
    """The version without anything that the tenant asked for."""
    return spec.model_copy(update={"services": (), "hostnames": (), "leased_ips": (), "kept": ()})
