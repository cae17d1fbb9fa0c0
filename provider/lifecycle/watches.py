"""Watches of the cluster: each event that matters becomes "check this lease" (docs/architecture.md §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import structlog

from lease.addresses import pool_name
from lease.ids import LeaseId, namespace_name
from provider.claims.leased_ips import address_claims
from provider.claims.moves import read_move
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.drift import ALWAYS_WATCHED, Change, Digests, Drift
from provider.lifecycle.health.edges import edge_state
from provider.lifecycle.health.pods import Trouble, pod_trouble
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    MANIFEST,
    NAMESPACE,
    POD,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SERVICE,
    STATEFUL_SET,
    Kind,
    WatchEvent,
)

__all__ = ["Observer", "Watcher", "watched"]

_RECORDS = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP)
_WORKLOADS = (DEPLOYMENT, STATEFUL_SET)
_POOLS = (IP_ADDRESS_POOL, L2_ADVERTISEMENT)
_log = structlog.get_logger(__name__)
_SETTLE_S = 0.3
"""The status of workloads changes in bursts; one check at the end of a burst is enough."""


def watched(*, gateway_api: bool, addresses: bool = False) -> tuple[Kind, ...]:
    """Every kind to watch. `addresses`: some can be leased, so MetalLB is installed. Pods are watched for health only:
    a pod that is moved or ended is no drift.
    """
    routes = (HTTP_ROUTE,) if gateway_api else ()
    return (*_RECORDS, NAMESPACE, *_WORKLOADS, POD, *ALWAYS_WATCHED, *routes, *(_POOLS if addresses else ()))


class Observer(Protocol):
    """Is called with every event of every watch, and with what `current` of `Cluster.watch` says."""

    def note(self, kind: Kind, event: WatchEvent) -> None: ...

    def mark(self, kind: Kind, current: bool) -> None: ...


class Watcher:
    """Calls `check(lease, after)`. Remembers the holder of each claim (the old holder must let go), which workloads
    were ready, the trouble of each pod and what every object said. `drift_of`: what is known of a lease's drift, None
    when nothing is. `waiting_for`: the leases that ask for what the claim of a name holds.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        records: str,
        check: Callable[[LeaseId, float], None],
        drift_of: Callable[[LeaseId], Drift | None] = lambda lease: None,
        metallb: str = "metallb-system",
        observer: Observer | None = None,
        waiting_for: Callable[[str], Iterable[LeaseId]] = lambda claim: (),
    ) -> None:
        self._cluster = cluster
        self._waiting_for = waiting_for
        self._observer = observer
        self._metallb = metallb
        self._users: dict[str, tuple[str, LeaseId]] = {}
        self._records = records
        self._queue_check = check
        self._drift_of = drift_of
        self._digests = Digests()
        self._by_namespace: dict[str, LeaseId] = {}
        self._holders: dict[tuple[str, str], LeaseId] = {}
        self._sources: dict[tuple[str, str], LeaseId] = {}
        self._ready: dict[str, bool] = {}
        self._troubles: dict[str, Trouble] = {}
        self._edges: dict[str, tuple[str, ...]] = {}
        self._running = asyncio.Event()
        self._running.set()
        self._known: Callable[[WatchEvent], bool] = lambda event: False
        self._quiet = False

    def pause(self) -> None:
        """Handle no event until `resume`."""
        self._running.clear()

    def resume(self, known: Callable[[WatchEvent], bool]) -> None:
        """Every object was listed: a watch that begins with the same version of an object (`known`) brings no news."""
        self._known = known
        self._running.set()

    def know(self, lease: LeaseId) -> None:
        """Recognise the objects of this lease: an object has a namespace, and only for known leases that leads
        to one.
        """
        self._by_namespace[namespace_name(lease)] = lease

    def forget(self, lease: LeaseId) -> None:
        self._by_namespace.pop(namespace_name(lease), None)

    async def follow(self, kind: Kind) -> None:
        """Watch one kind until cancelled."""
        place = self._records if kind in _RECORDS else self._metallb if kind in _POOLS else None
        watch = partial(self._cluster.watch, kind, namespace=place, labels=None if place else MANAGED)
        observer = self._observer
        async for event in watch(current=partial(observer.mark, kind)) if observer else watch():
            await self._running.wait()
            try:
                if observer:
                    observer.note(kind, event)
                self._quiet = event.type == "ADDED" and self._known(event)
                self._handle(kind, event)
            except (KeyError, TypeError, ValueError, AttributeError):
                _log.exception("lifecycle.object_unreadable", kind=kind.kind)

    def _handle(self, kind: Kind, event: WatchEvent) -> None:
        if kind in _RECORDS:
            self._claim(kind, event)
            if kind is PROVIDER_LEASED_IP:
                self._user(event)
        elif kind is POD:
            self._pod(event)
        elif kind in _POOLS:
            self._pool(event)
        else:
            self._object(event)
            if kind is NAMESPACE:
                self._claim(kind, event)
            elif kind in _WORKLOADS:
                self._workload(event)
            elif kind in (SERVICE, HTTP_ROUTE):
                self._edge(event)

    def _ask(self, lease: LeaseId, after: float) -> None:
        if not self._quiet:
            self._queue_check(lease, after)

    def _claim(self, kind: Kind, event: WatchEvent) -> None:
        lease, key = lease_of(event.object), (kind.kind, event.object["metadata"]["name"])
        before, source = self._holders.pop(key, None), self._source(key, event)
        if lease is not None and event.type != "DELETED":
            self._holders[key] = lease
        if before not in (None, self._holders.get(key)):
            for other in self._waiting_for(_claimed(event.object)):
                self._ask(other, _SETTLE_S)
        if event.type == "DELETED" and lease not in self._by_namespace.values():
            return  # the last objects of a lease that has ended
        after = _SETTLE_S if kind is MANIFEST and event.type != "DELETED" else 0.0  # the gateway announces its own
        for concerned in {before, lease, *source} - {None}:
            self._ask(concerned, after)  # type: ignore[arg-type]

    def _source(self, key: tuple[str, str], event: WatchEvent) -> set[LeaseId]:
        """The lease that a claim is leaving, before the event and now: it must go on serving, or let go."""
        before, now = self._sources.pop(key, None), read_move(event.object).source
        if now is not None and event.type != "DELETED":
            self._sources[key] = now
        return {lease for lease in (before, now) if lease is not None}

    def _object(self, event: WatchEvent) -> None:
        """Somebody changed what an object says, perhaps this provider's own engine: a comparison finds out."""
        if self._quiet:
            self._digests.listed(event.object)
            return
        change, lease = self._digests.note(event), self._lease_of(event)
        if lease is None or change is Change.NONE:
            return
        drift = self._drift_of(lease)
        compared = drift is not None and drift.compared and event.object["metadata"].get("namespace")
        if change is Change.FIRST and not compared:
            return  # the first comparison is still to come and reads this object too
        self._compare_again(lease)

    def _compare_again(self, lease: LeaseId) -> None:
        if drift := self._drift_of(lease):
            drift.compared = False
        self._ask(lease, _SETTLE_S)

    def _user(self, event: WatchEvent) -> None:
        """Note which lease has its address from which pool; one pool serves all leases of a sharing key."""
        name = event.object["metadata"]["name"]
        self._users.pop(name, None)
        claim = address_claims([event.object]).get(name)
        if claim is not None and event.type != "DELETED":
            self._users[name] = (pool_name(claim.key), claim.lease)

    def _pool(self, event: WatchEvent) -> None:
        """Somebody changed or deleted a pool of addresses: all leases that use it are compared."""
        if self._quiet:
            self._digests.listed(event.object)
        elif self._digests.note(event) is Change.CHANGED:
            pool = event.object["metadata"]["name"]
            for lease in {lease for used, lease in self._users.values() if used == pool}:
                self._compare_again(lease)

    def _workload(self, event: WatchEvent) -> None:
        """Check the lease when the workload appears, goes, becomes ready or stops being ready; the steps of a crash
        loop are not worth a check.
        """
        lease, key = self._lease_of(event), _key(event)
        before = self._ready.pop(key, None)
        if event.type != "DELETED":
            self._ready[key] = _is_ready(event.object)
        if lease is not None and self._ready.get(key) != before:
            self._ask(lease, _SETTLE_S)

    def _edge(self, event: WatchEvent) -> None:
        """Check the lease when its Service gets or loses an address, or the edge refuses or takes its route."""
        lease, key = self._lease_of(event), _key(event)
        before, state = self._edges.pop(key, ()), edge_state(event.object)
        if event.type != "DELETED" and state:
            self._edges[key] = state
        if lease is not None and state != before:
            self._ask(lease, _SETTLE_S)

    def _pod(self, event: WatchEvent) -> None:
        """Check the lease when the pod has another kind of trouble. The end of a trouble shows in the workload."""
        key, trouble = _key(event), pod_trouble(event.object)
        before = self._troubles.pop(key, None)
        if event.type == "DELETED":
            return
        kind = trouble.kind if trouble is not None else before
        if kind is not None:
            self._troubles[key] = kind
        if kind != before and (lease := self._lease_of(event)) is not None:
            self._ask(lease, _SETTLE_S)

    def _lease_of(self, event: WatchEvent) -> LeaseId | None:
        """The lease of the object's namespace, None when unknown. Labels do not count: an edit may have removed
        them.
        """
        meta = event.object["metadata"]
        return self._by_namespace.get(meta.get("namespace") or meta["name"])


def _key(event: WatchEvent) -> str:
    meta = event.object["metadata"]
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")


def _claimed(obj: Mapping[str, Any]) -> str:
    """The hostname of a ProviderHost, the name of another object."""
    return str((obj.get("spec") or {}).get("hostname") or obj["metadata"]["name"]).lower()


def _is_ready(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status") or {}
    ready = int(status.get("availableReplicas" if obj.get("kind") == DEPLOYMENT.kind else "readyReplicas") or 0)
    return ready >= int((obj.get("spec") or {}).get("replicas") or 0)
