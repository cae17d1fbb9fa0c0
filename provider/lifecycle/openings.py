"""A lease is won and its manifest is still to come: the engine may begin with what needs none (toolchain.md §3).

Namespace and isolation depend on the lease and on the cluster's facts only. The version of the manifest, which the Go
provider writes on both, is not known then, so they carry the one that says so from the first day.
"""

from __future__ import annotations

from collections.abc import Callable

from lease.ids import LeaseId, namespace_name
from lease.spec import ClusterFacts, LeaseSpec
from provider.protocols import Cluster, StackEngine
from provider.protocols.cluster import NAMESPACE, SECRET
from provider.records.applied import applied_name

__all__ = ["BEFORE_THE_MANIFEST", "MakeOpening", "Openings", "openable", "opening_spec"]

BEFORE_THE_MANIFEST = "0"
"""`first_resource_version` of a lease that may be opened: no manifest of it was ever stored at this version."""

MakeOpening = Callable[[LeaseId], LeaseSpec]


def opening_spec(lease: LeaseId, cluster: ClusterFacts) -> LeaseSpec:
    """What is known of a lease's spec when it is won."""
    return LeaseSpec(lease=lease, group="", first_resource_version=BEFORE_THE_MANIFEST, services=(), cluster=cluster)


def openable(spec: LeaseSpec) -> LeaseSpec:
    """A first deployment's spec, such that an update that was opened for the lease fits."""
    return spec.model_copy(update={"first_resource_version": BEFORE_THE_MANIFEST})


class Openings:
    """Offers leases to the engine, each once: one that was not taken or was given up goes the ordinary way. One that
    ran before (its manifest is lost, its stack perhaps too) is never offered: its stack must take over all that runs.

    `make` None: nothing is offered. What was given up before a restart has a stack, and the engine declines those.
    """

    def __init__(self, engine: StackEngine, cluster: Cluster, make: MakeOpening | None, *, records: str) -> None:
        self._engine = engine
        self._cluster = cluster
        self._records = records
        self._make = make
        self._offered: set[LeaseId] = set()
        self._taken: set[LeaseId] = set()

    async def offer(self, lease: LeaseId) -> None:
        """It waits for its manifest."""
        if self._make is None or lease in self._offered:
            return
        untouched = await self._untouched(lease)
        self._offered.add(lease)
        if untouched and await self._engine.open(self._make(lease)):
            self._taken.add(lease)

    async def _untouched(self, lease: LeaseId) -> bool:
        """Nothing was ever made for it. Raises `ClusterError`; then it is asked again at the next look."""
        if await self._cluster.get(SECRET, applied_name(lease), namespace=self._records) is not None:
            return False
        return await self._cluster.get(NAMESPACE, namespace_name(lease)) is None

    async def withdraw(self, lease: LeaseId) -> None:
        """It does not look alive any more."""
        if lease in self._taken:
            self._taken.discard(lease)
            await self._engine.give_up(namespace_name(lease))

    def forget(self, lease: LeaseId) -> None:
        """Nothing is left of it."""
        self._offered.discard(lease)
        self._taken.discard(lease)
