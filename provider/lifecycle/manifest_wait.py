"""The wait of a lease for its first manifest (sdl-and-manifest.md §5.8, bidding.md §1.9).

The time is the lease's own: it counts from when this provider first knew of the lease, through restarts, whatever other
leases the deployment has. A tenant cannot send what the provider cannot take, so one minute is left to the tenant after
a restart and after every check at which chain or cluster did not answer. A lease that has a manifest, or ever had one,
waits for none.
"""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId, namespace_name
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, PERSISTENT_VOLUME_CLAIM, SECRET, STATEFUL_SET
from provider.records.applied import applied_name

__all__ = ["ManifestWait", "traces_of_a_manifest"]

_GRACE_S = 60.0


@dataclass(slots=True)
class ManifestWait:
    """One lease's wait. `limit_s` 0: nothing is counted and the lease is never given up.

    Times are monotonic seconds, so no jump of the wall clock ends a lease. `known_since`: when this provider first knew
    of the waiting lease. `seen_since`: since when every check has found chain and cluster there, or when the chain was
    last asked to end the lease. Forgetting them only gives a tenant more time. `served`: this provider has served a
    manifest of the lease, so the manifest was lost with the cluster and the tenant did send it.
    """

    limit_s: float
    known_since: float | None = None
    seen_since: float | None = None
    served: bool = False

    @property
    def _grace_s(self) -> float:
        return min(self.limit_s, _GRACE_S)

    def left(self, *, now: float) -> float | None:
        """Seconds until a lease that is found waiting may be given up; 0 or less: it may be; None: never."""
        if not self.limit_s:
            return None
        self.known_since = now if self.known_since is None else self.known_since
        self.seen_since = now if self.seen_since is None else self.seen_since
        return max(self.known_since + self.limit_s, self.seen_since + self._grace_s) - now

    def next_check_s(self, left: float) -> float:
        """Seconds until the next check: often enough to notice that chain or cluster were away meanwhile."""
        return min(left, self._grace_s) if left > 0 else self._grace_s

    def saw_nothing(self) -> None:
        """A check failed: the next one that does not leaves the tenant a minute."""
        self.seen_since = None

    def asked(self, *, now: float) -> None:
        """The chain was asked to end the lease; it is not asked again within a minute."""
        self.seen_since = now

    def end(self) -> None:
        """The lease does not wait any more."""
        self.known_since = self.seen_since = None

    def drop_unseen(self) -> None:
        """Forget a wait from before a restart when no check has found the lease waiting since."""
        if self.seen_since is None:
            self.known_since = None

    def restore(self, *, known_since: float) -> None:
        """Take over a wait from before a restart; the earlier time counts."""
        if self.limit_s:
            self.known_since = min(known_since, known_since if self.known_since is None else self.known_since)


async def traces_of_a_manifest(cluster: Cluster, lease: LeaseId, *, records: str) -> str:
    """The object that shows that the lease has or had a manifest; empty when there is none. Raises `ClusterError`.

    An update that was opened before the manifest leaves a namespace with policies only: these are no trace.
    """
    space = namespace_name(lease)
    for kind, name in ((MANIFEST, space), (SECRET, applied_name(lease))):
        if await cluster.get(kind, name, namespace=records) is not None:
            return f"{kind.kind} {name} exists"
    for kind in (DEPLOYMENT, STATEFUL_SET, PERSISTENT_VOLUME_CLAIM):
        if found := await cluster.list(kind, namespace=space):
            return f"{kind.kind} {found[0]['metadata']['name']} exists"
    return ""
