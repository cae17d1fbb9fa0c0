"""What happens in the cluster, turned into "look at this lease" and nothing more (docs/architecture.md §2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from components.labels import NAMESPACE as NAMESPACE_LABEL
from lease.ids import LeaseId, namespace_name
from provider.operators.labels import MANAGED, lease_of
from provider.operators.objects import (
    DEPLOYMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    STATEFUL_SET,
    Kind,
    WatchEvent,
)
from provider.protocols import Cluster

__all__ = ["WATCHED", "Watcher"]

WATCHED = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, NAMESPACE, DEPLOYMENT, STATEFUL_SET)
_RECORDS = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP)
_log = structlog.get_logger(__name__)
_SETTLE_S = 0.3
"""Workload status comes in bursts; one look at their end is enough."""


class Watcher:
    """Feeds `look(lease, after)`. Remembers who held a claim (the old holder must let go) and who was ready."""

    def __init__(self, cluster: Cluster, *, records: str, look: Callable[[LeaseId, float], None]) -> None:
        self._cluster = cluster
        self._records = records
        self._look = look
        self._by_namespace: dict[str, LeaseId] = {}
        self._holders: dict[tuple[str, str], LeaseId] = {}
        self._ready: dict[str, bool] = {}

    def know(self, lease: LeaseId) -> None:
        """Workloads carry their namespace, not their lease: only known leases are recognised in it."""
        self._by_namespace[namespace_name(lease)] = lease

    def forget(self, lease: LeaseId) -> None:
        self._by_namespace.pop(namespace_name(lease), None)

    async def follow(self, kind: Kind) -> None:
        """Watch one kind, for ever."""
        namespace, labels = (self._records, None) if kind in _RECORDS else (None, MANAGED)
        async for event in self._cluster.watch(kind, namespace=namespace, labels=labels):
            try:
                self._heed(kind, event)
            except (KeyError, TypeError, ValueError, AttributeError):
                _log.exception("unreadable object in a watch", kind=kind.kind)

    def _heed(self, kind: Kind, event: WatchEvent) -> None:
        if kind in _RECORDS or kind is NAMESPACE:
            self._claim(kind, event)
        else:
            self._workload(event)

    def _claim(self, kind: Kind, event: WatchEvent) -> None:
        lease, key = lease_of(event.object), (kind.kind, event.object["metadata"]["name"])
        before = self._holders.pop(key, None)
        if lease is not None and event.type != "DELETED":
            self._holders[key] = lease
        if event.type == "DELETED" and lease not in self._by_namespace.values():
            return  # the last traces of a lease that has ended
        for concerned in {before, lease} - {None}:
            self._look(concerned, 0.0)  # type: ignore[arg-type]

    def _workload(self, event: WatchEvent) -> None:
        """Only a change of "is it there, is it ready" is worth a look; a crash loop's every step is not."""
        meta = event.object["metadata"]
        lease = self._by_namespace.get((meta.get("labels") or {}).get(NAMESPACE_LABEL, ""))
        key = str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")
        before = self._ready.pop(key, None)
        if event.type != "DELETED":
            self._ready[key] = _is_ready(event.object)
        if lease is not None and self._ready.get(key) != before:
            self._look(lease, _SETTLE_S)


def _is_ready(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status") or {}
    ready = int(status.get("availableReplicas" if obj.get("kind") == DEPLOYMENT.kind else "readyReplicas") or 0)
    return ready >= int((obj.get("spec") or {}).get("replicas") or 0)
