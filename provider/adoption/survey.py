"""What a cluster holds of leases: one list a kind, sorted by the leases' namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from components.labels import AKASH, Object
from lease.ids import LeaseId, namespace_name
from provider.claims.pools import list_pools
from provider.errors import ClusterError
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.drift import NETWORK_POLICY, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    INGRESS,
    MANIFEST,
    NAMESPACE,
    POD,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
)
from provider.records.applied import APPLIED_LABEL, applied_name

__all__ = ["LeaseTraces", "Survey", "other_providers", "survey"]

_KINDS = (NETWORK_POLICY, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, DEPLOYMENT, STATEFUL_SET, SERVICE, INGRESS, HTTP_ROUTE)
_IMAGE = "akash-network/provider"
"""The repository of the Go provider's image; its operators run from the same one."""
_LIVING = ("Pending", "Running", "Unknown")


@dataclass(slots=True)
class LeaseTraces:
    """Everything under the name of one lease. `objects`: those of the lease in its namespace. `foreign`: the kind and
    name of each other object there.
    """

    name: str
    manifest: Object | None = None
    applied: Object | None = None
    namespace: Object | None = None
    objects: list[Object] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    hosts: list[Object] = field(default_factory=list)
    ips: list[Object] = field(default_factory=list)

    @property
    def lease(self) -> LeaseId | None:
        """The lease by the labels of its namespace or its Manifest object; None when neither names one."""
        return next((lease for obj in (self.namespace, self.manifest) if obj and (lease := lease_of(obj))), None)


@dataclass(frozen=True, slots=True)
class Survey:
    """`leases` by the names of their namespaces. `ips`: all ProviderLeasedIPs. `pools`: of MetalLB. `unreadable`:
    claims without the labels of a lease.
    """

    leases: Mapping[str, LeaseTraces]
    ips: tuple[Object, ...]
    pools: tuple[Object, ...]
    unreadable: tuple[str, ...]


async def survey(cluster: Cluster, *, records: str, metallb: str) -> Survey:
    """Read the cluster. `records`: the namespace of records. Raises `ClusterError`."""
    traces: dict[str, LeaseTraces] = {}
    for obj in await cluster.list(MANIFEST, namespace=records):
        _traces_of(traces, obj["metadata"]["name"]).manifest = obj
    for obj in await cluster.list(NAMESPACE, labels=MANAGED):
        if (lease := lease_of(obj)) is not None and obj["metadata"]["name"] == namespace_name(lease):
            _traces_of(traces, namespace_name(lease)).namespace = obj
    for obj in await cluster.list(SECRET, namespace=records, labels=APPLIED_LABEL):
        if (lease := lease_of(obj)) is not None and obj["metadata"]["name"] == applied_name(lease):
            _traces_of(traces, namespace_name(lease)).applied = obj
    await _fill(cluster, traces)
    hosts, ips = [await cluster.list(kind, namespace=records) for kind in (PROVIDER_HOST, PROVIDER_LEASED_IP)]
    unreadable = [*_assign(traces, hosts, "hosts"), *_assign(traces, ips, "ips")]
    pools = await list_pools(cluster, namespace=metallb)
    return Survey(traces, tuple(ips), tuple(pools), tuple(unreadable))


async def other_providers(cluster: Cluster) -> tuple[str, ...]:
    """`namespace/name` of each pod of a Go provider or one of its operators that runs in the cluster. Raises
    `ClusterError`.
    """
    found = []
    for pod in await cluster.list(POD):
        meta, spec = pod["metadata"], pod.get("spec") or {}
        lives = (pod.get("status") or {}).get("phase", "Pending") in _LIVING
        images = (str(container.get("image", "")) for container in spec.get("containers") or ())
        if lives and any(_repository(image).endswith(_IMAGE) for image in images):
            found.append(f"{meta.get('namespace')}/{meta['name']}")
    return tuple(sorted(found))


def _traces_of(traces: dict[str, LeaseTraces], name: str) -> LeaseTraces:
    return traces.setdefault(name, LeaseTraces(name))


async def _fill(cluster: Cluster, traces: Mapping[str, LeaseTraces]) -> None:
    for kind in (*_KINDS, SECRET):
        labels = MANAGED if kind is SECRET else None  # the other Secrets of a cluster are many, and nobody's business
        for obj in await _installed_objects(cluster, kind, labels):
            trace = traces.get(str(obj["metadata"].get("namespace")))
            if trace is not None and not obj["metadata"].get("ownerReferences"):
                _note(trace, kind, obj)


def _note(trace: LeaseTraces, kind: Kind, obj: Object) -> None:
    meta = obj["metadata"]
    own = (meta.get("labels") or {}).get(AKASH) == "true" and lease_of(obj) in (None, trace.lease)
    if own and not meta.get("deletionTimestamp"):
        trace.objects.append(obj)
    elif not (kind is SERVICE_ACCOUNT and meta["name"] == "default"):
        trace.foreign.append(f"{kind.kind} {meta['name']}")


async def _installed_objects(
    cluster: Cluster, kind: Kind, labels: Mapping[str, str | None] | None
) -> list[dict[str, Any]]:
    """The objects of a kind; none of a kind that is not installed."""
    try:
        return await cluster.list(kind, labels=labels)
    except ClusterError as error:
        if error.status == 404:
            return []
        raise


def _assign(traces: dict[str, LeaseTraces], claims: Iterable[Object], where: str) -> list[str]:
    """Give each claim to its lease; the names of those that name no lease."""
    unreadable = []
    for obj in claims:
        if (lease := lease_of(obj)) is None:
            unreadable.append(f"{obj['kind']} {obj['metadata']['name']}")
        elif (trace := traces.get(namespace_name(lease))) is not None:
            getattr(trace, where).append(obj)
    return unreadable


def _repository(image: str) -> str:
    """The image without its digest and tag."""
    name = image.partition("@")[0]
    before, colon, tag = name.rpartition(":")
    return before if colon and "/" not in tag else name
