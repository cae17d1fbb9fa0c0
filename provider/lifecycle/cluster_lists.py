"""Every object of every lease, in one list a kind: enough to check a lease of which nothing is to be done.

At a start this saves the requests for each lease. A check over the lists can only find that nothing is to be done.
Whatever it would write, apply or ask beyond the lists ends it, and the same check is made over the cluster itself; an
old list costs a check and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.errors import ClusterError
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.drift import ALWAYS_WATCHED, Drift
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.convergence import serve
from provider.lifecycle.state import Outcome
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    STATEFUL_SET,
    Kind,
    WatchEvent,
)
from stacks.common import Priority, StackResult

__all__ = ["ClusterLists", "list_cluster"]

_OF_LEASES = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, NAMESPACE, DEPLOYMENT, STATEFUL_SET, *ALWAYS_WATCHED)


class _ListsTooShort(Exception):
    """The check needs more than the lists."""


class ClusterLists:
    """Listed objects by kind and namespace. Each lease's part is used once, and not after anything happened to the
    lease; its objects are forgotten then, which are tens of kilobytes. `used_up`: no lease has a part any more.
    """

    def __init__(self, listed: Mapping[Kind, Collection[dict[str, Any]]]) -> None:
        self._by_place: dict[tuple[Kind, str], list[dict[str, Any]]] = {}
        self._kinds = set(listed)
        self._old: set[LeaseId] = set()
        self._gone: set[str] = set()
        self._left = {lease for obj in listed.get(MANIFEST, ()) if (lease := lease_of(obj)) is not None}
        self._versions = {_version(obj) for objects in listed.values() for obj in objects}
        for kind, objects in listed.items():
            for obj in objects:
                self._by_place.setdefault((kind, obj["metadata"].get("namespace", "")), []).append(obj)

    def drop(self, lease: LeaseId) -> None:
        """Do not use the lease's part: something happened to the lease since, or it was checked."""
        self._old.add(lease)
        self._left.discard(lease)
        namespace = namespace_name(lease)
        self._gone.add(namespace)
        for kind in self._kinds:
            self._by_place.pop((kind, namespace), None)

    @property
    def used_up(self) -> bool:
        return not self._left

    def versions(self) -> Callable[[WatchEvent], bool]:
        """Whether the very version of an object was listed. The objects are not kept for the answer."""
        versions = self._versions
        return lambda event: _version(event.object) in versions

    async def check(self, parts: Parts, lease: LeaseId, drift: Drift) -> Outcome | None:
        """The outcome when nothing is to be done; None when the check must be made over the cluster itself."""
        if lease in self._old:
            return None
        cluster = _Listed(self._kinds, self._by_place, self._gone)
        over = replace(
            parts,
            cluster=cluster,
            engine=_NoEngine(),
            claims=LeaseClaims(cluster, parts.config),
            show=lambda *_: None,
            note_refusal=_too_short,
        )
        drift.compared = False  # comparing costs no request here, and finds what no watch has reported
        try:
            return await serve(over, lease, drift)
        except _ListsTooShort:
            drift.compared = False
            return None
        finally:
            self.drop(lease)


async def list_cluster(cluster: Cluster, config: LifecycleConfig) -> ClusterLists:
    """Read one list for each kind that exists here. A list that fails is left out; leases that need it are read one by
    one.
    """
    kinds: list[tuple[Kind, str | None, Mapping[str, str] | None]] = [(kind, None, MANAGED) for kind in _OF_LEASES]
    if config.gateway_api:
        kinds.append((HTTP_ROUTE, None, MANAGED))
    if config.ip_ranges or config.ip_pools:
        kinds += [(kind, config.metallb_namespace, None) for kind in (IP_ADDRESS_POOL, L2_ADVERTISEMENT)]
    listed = {}
    for kind, namespace, labels in kinds:
        try:
            listed[kind] = await cluster.list(kind, namespace=namespace, labels=labels)
        except ClusterError:
            continue
    return ClusterLists(listed)


async def _too_short(spec: LeaseSpec, why: str) -> None:
    raise _ListsTooShort


def _version(obj: Mapping[str, Any]) -> tuple[str, str, str, str]:
    meta = obj["metadata"]
    return str(obj.get("kind")), meta.get("namespace", ""), meta["name"], str(meta.get("resourceVersion", ""))


class _Listed:
    """`protocols.Cluster` over the lists. It never waits, so that nothing happens during a check over it."""

    def __init__(
        self, kinds: set[Kind], by_place: Mapping[tuple[Kind, str], list[dict[str, Any]]], gone: Collection[str]
    ) -> None:
        self._kinds = kinds
        self._by_place = by_place
        self._gone = gone

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        found = self._of(kind, namespace)
        return next((obj for obj in found if obj["metadata"]["name"] == name), None)

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]:
        if labels and None in labels.values():
            raise _ListsTooShort
        wanted = (labels or {}).items()
        return [obj for obj in self._of(kind, namespace) if wanted <= (obj["metadata"].get("labels") or {}).items()]

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        raise _ListsTooShort

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> NoReturn:
        raise _ListsTooShort

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> NoReturn:
        raise _ListsTooShort

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> NoReturn:
        raise _ListsTooShort

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> NoReturn:
        raise _ListsTooShort

    def _of(self, kind: Kind, namespace: str | None) -> Sequence[dict[str, Any]]:
        if kind not in self._kinds or namespace in self._gone:
            raise _ListsTooShort
        return self._by_place.get((kind, namespace or ""), ())


class _NoEngine:
    """`protocols.StackEngine` of which every request ends the check."""

    async def preview(self, spec: LeaseSpec) -> StackResult:
        raise _ListsTooShort

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        raise _ListsTooShort

    async def refresh(self, stack: str) -> StackResult:
        raise _ListsTooShort

    async def destroy(self, stack: str) -> StackResult:
        raise _ListsTooShort

    async def stacks(self) -> Sequence[str]:
        raise _ListsTooShort
