"""The objects of every lease that a status needs, as the watches of the lease loop have reported them: a status is
answered without a request to the API server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import structlog

from lease.ids import LeaseId, namespace_name
from provider.errors import ClusterError
from provider.gateway.lease_objects import LeaseObjects, ReadLease
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.watches import Observer
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
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

__all__ = ["Observers", "WatchedObjects", "follow_objects", "read_or_known", "with_trouble"]

_PARTS: Mapping[Kind, tuple[str, ...]] = {
    MANIFEST: (),
    NAMESPACE: (),
    DEPLOYMENT: ("status",),
    STATEFUL_SET: ("status",),
    SERVICE: ("spec", "status"),
    PROVIDER_HOST: ("spec",),
    PROVIDER_LEASED_IP: ("spec", "status"),
}
"""The kinds, and what a status reads of them beside the name. A whole object would need ten times the memory."""
_CLAIMS = (PROVIDER_HOST, PROVIDER_LEASED_IP)
_RECORDS = (MANIFEST, *_CLAIMS)
_ANSWER_S = 1.0
"""A tenant waits no longer for an API server whose last words are known."""
_log = structlog.get_logger("gateway")
_OLD = "the cluster does not answer; this is what it said last"
_Place: TypeAlias = tuple[Kind, str]


class WatchedObjects:
    """`note` and `mark` are called with what the watches say. `read` answers from it, None while any of the watches is
    not current: the API server must be asked then.
    """

    def __init__(self) -> None:
        self._places: dict[_Place, dict[str, dict[str, Any]]] = {}
        self._place_of: dict[tuple[Kind, str], _Place] = {}
        self._manifests: dict[str, bytes] = {}
        self._current: set[Kind] = set()
        self._reported: set[Kind] = set()

    def note(self, kind: Kind, event: WatchEvent) -> None:
        """Remember what a status reads of the object. Other kinds are ignored."""
        if kind not in _PARTS:
            return
        meta = event.object["metadata"]
        if kind is MANIFEST:
            self._manifests.pop(meta["name"], None)
            if event.type != "DELETED":
                self._manifests[meta["name"]] = json.dumps(event.object, separators=(",", ":")).encode()
            return
        key = str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")
        self._drop(kind, key)
        place = _place(kind, event.object)
        if event.type != "DELETED" and place is not None:
            kept = {part: event.object[part] for part in _PARTS[kind] if part in event.object}
            self._places.setdefault(place, {})[key] = {"metadata": {"name": meta["name"]}, **kept}
            self._place_of[kind, key] = place

    def mark(self, kind: Kind, current: bool) -> None:
        """Whether the watch of this kind has reported all that there is, and reports what changes."""
        (self._current.add if current else self._current.discard)(kind)
        if current:
            self._reported.add(kind)

    def read(self, lease: LeaseId) -> LeaseObjects | None:
        """The objects of the lease; None when they may not be all, or not as they are."""
        return self._known_objects(lease) if _PARTS.keys() <= self._current else None

    def last_known(self, lease: LeaseId) -> LeaseObjects | None:
        """The objects of the lease as the watches reported them last, however long ago; None when one of the watches
        has never reported all that there is, or none of them knows the lease.
        """
        if not _PARTS.keys() <= self._reported or namespace_name(lease) not in self._manifests:
            return None
        return self._known_objects(lease)

    def _known_objects(self, lease: LeaseId) -> LeaseObjects:
        name, manifest = namespace_name(lease), self._manifests.get(namespace_name(lease))

        def of_kind(kind: Kind) -> tuple[dict[str, Any], ...]:
            return tuple(self._places.get((kind, str(lease) if kind in _CLAIMS else name), {}).values())

        return LeaseObjects(
            manifest=None if manifest is None else json.loads(manifest),
            namespace=bool(of_kind(NAMESPACE)),
            deployments=of_kind(DEPLOYMENT),
            stateful_sets=of_kind(STATEFUL_SET),
            services=of_kind(SERVICE),
            hosts=of_kind(PROVIDER_HOST),
            leased_ips=of_kind(PROVIDER_LEASED_IP),
        )

    def _drop(self, kind: Kind, key: str) -> None:
        place = self._place_of.pop((kind, key), None)
        if place is not None:
            objects = self._places[place]
            del objects[key]
            if not objects:
                del self._places[place]


class Observers:
    """Passes what the watches report to each of several observers."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def note(self, kind: Kind, event: WatchEvent) -> None:
        for each in self._observers:
            each.note(kind, event)

    def mark(self, kind: Kind, current: bool) -> None:
        for each in self._observers:
            each.mark(kind, current)


async def follow_objects(cluster: Cluster, observer: Observer, *, records: str) -> None:
    """Watch pods and every kind that `WatchedObjects` keeps, for ever, where no lease loop does. `records`: the
    namespace of the Manifest objects and the claims.
    """
    async with asyncio.TaskGroup() as group:
        for kind in (*_PARTS, POD):
            group.create_task(_follow(cluster, observer, kind, records), name=f"watch of {kind.kind}")


async def _follow(cluster: Cluster, objects: Observer, kind: Kind, records: str) -> None:
    place = records if kind in _RECORDS else None
    labels = None if place else MANAGED
    async for event in cluster.watch(kind, namespace=place, labels=labels, current=partial(objects.mark, kind)):
        try:
            objects.note(kind, event)
        except (KeyError, TypeError, ValueError, AttributeError):
            _log.exception("gateway.object_unreadable", kind=kind.kind)


def read_or_known(objects: WatchedObjects, read: ReadLease) -> ReadLease:
    """A reader that answers from the watches; while one of them is not current, from `read`, and without an answer of
    the API server within a second from what the watches reported last, with a text that says so. Raises `ClusterError`
    when they have reported nothing of the lease.
    """

    async def read_lease(lease: LeaseId) -> LeaseObjects:
        if (found := objects.read(lease)) is not None:
            return found
        if (known := objects.last_known(lease)) is None:
            return await read(lease)
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await read(lease)
        except (TimeoutError, ClusterError):
            return replace(known, trouble=_OLD)

    return read_lease


def with_trouble(read: ReadLease, text: Callable[[LeaseId], str]) -> ReadLease:
    """`read`, with what the lease loop says of the lease (`text`, empty for nothing) before what the watches say."""

    async def read_lease(lease: LeaseId) -> LeaseObjects:
        found = await read(lease)
        return replace(found, trouble="; ".join(filter(None, (text(lease), found.trouble))))

    return read_lease


def _place(kind: Kind, obj: Mapping[str, Any]) -> _Place | None:
    """A claim belongs to the lease of its labels, any other object to the lease of its namespace."""
    if kind in _CLAIMS:
        lease = lease_of(obj)
        return None if lease is None else (kind, str(lease))
    return kind, str(obj["metadata"].get("name" if kind is NAMESPACE else "namespace"))
