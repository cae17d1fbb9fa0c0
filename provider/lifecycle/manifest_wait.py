"""How long has a lease that was won waited for its first manifest? (sdl-and-manifest.md §5.8, bidding.md §1.9)

The time is the lease's own: it counts from when we first knew of it, through restarts, whatever other leases its
deployment has. As a tenant cannot send what we cannot take, a minute is left to him after a restart and after every
look at which chain or cluster did not answer. A lease that has a manifest, or ever had one, waits for none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lease.ids import LeaseId, namespace_name
from provider.lifecycle.directives import Standing, StandingWord
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, PERSISTENT_VOLUME_CLAIM, SECRET, STATEFUL_SET
from provider.records.applied import applied_name

__all__ = ["ManifestWaits", "traces_of_a_manifest"]

_GRACE_S = 60.0


class ManifestWaits:
    """Leases that wait, by when we first knew of them. `limit_s` 0: nothing is counted and nothing given up.

    Times are monotonic seconds, so no jump of the wall clock ends a lease. Forgetting only gives a tenant more time.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._grace = min(limit_s, _GRACE_S)
        self._known: dict[LeaseId, float] = {}
        self._seen: dict[LeaseId, float] = {}
        """Since when every look at it has found chain and cluster there, or when the chain was last asked to end it."""

    def left(self, lease: LeaseId, *, now: float) -> float | None:
        """A look finds it waiting: seconds until it may be given up, 0 or less when it may be, None for never."""
        if not self.limit_s:
            return None
        known, seen = self._known.setdefault(lease, now), self._seen.setdefault(lease, now)
        return max(known + self.limit_s, seen + self._grace) - now

    def next_look(self, left: float) -> float:
        """Seconds: often enough to notice that chain or cluster were away meanwhile."""
        return min(left, self._grace) if left > 0 else self._grace

    def saw_nothing(self, lease: LeaseId) -> None:
        """A look failed: from the next one that does not, a minute is left to the tenant."""
        self._seen.pop(lease, None)

    def asked(self, lease: LeaseId, *, now: float) -> None:
        """The chain was asked to end it, and is not asked again before a minute is over."""
        self._seen[lease] = now

    def forget(self, lease: LeaseId) -> None:
        """It does not wait, or has ended."""
        self._known.pop(lease, None)
        self._seen.pop(lease, None)

    def only(self, leases: Collection[LeaseId]) -> None:
        """These are all that there are: what waited before a restart and has ended since is not looked at any more."""
        for lease in self._known.keys() - self._seen.keys() - set(leases):
            del self._known[lease]

    def standing(self, *, now: float, wall: float) -> list[Standing]:
        """What a restart must know; `wall` is `now` in Unix seconds."""
        return [Standing(lease, StandingWord.AWAITED, at + wall - now) for lease, at in self._known.items()]

    def restore(self, standing: Iterable[Standing], *, now: float, wall: float) -> None:
        """What was so before a restart."""
        for each in standing:
            if self.limit_s and each.word is StandingWord.AWAITED:
                known = min(now, each.at - (wall - now))
                self._known[each.lease] = min(known, self._known.get(each.lease, known))


async def traces_of_a_manifest(cluster: Cluster, lease: LeaseId, *, records: str) -> str:
    """What says that it has or had a manifest, empty when nothing does. Raises `ClusterError`.

    An update that was opened before the manifest leaves a namespace with policies only: that is no trace.
    """
    space = namespace_name(lease)
    for kind, name in ((MANIFEST, space), (SECRET, applied_name(lease))):
        if await cluster.get(kind, name, namespace=records) is not None:
            return f"{kind.kind} {name} exists"
    for kind in (DEPLOYMENT, STATEFUL_SET, PERSISTENT_VOLUME_CLAIM):
        if found := await cluster.list(kind, namespace=space):
            return f"{kind.kind} {found[0]['metadata']['name']} exists"
    return ""
