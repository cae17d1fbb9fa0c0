"""The Kubernetes API: the kinds of objects that the provider reads and writes, and the port behind which the API lives.

`MANIFEST`, `PROVIDER_HOST` and `PROVIDER_LEASED_IP` are the provider's own records (kubernetes-objects.md §2.11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = [
    "DEPLOYMENT",
    "ENDPOINTS",
    "EVENT",
    "GRPC_ROUTE",
    "HTTP_ROUTE",
    "INGRESS",
    "INGRESS_ROUTE",
    "INGRESS_ROUTE_TCP",
    "IP_ADDRESS_POOL",
    "KUBE_LEASE",
    "L2_ADVERTISEMENT",
    "MANIFEST",
    "NAMESPACE",
    "NODE",
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "POD",
    "PROVIDER_HOST",
    "PROVIDER_LEASED_IP",
    "SECRET",
    "SERVICE",
    "STATEFUL_SET",
    "STORAGE_CLASS",
    "TLS_ROUTES",
    "Cluster",
    "Kind",
    "WatchEvent",
    "kind_of",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """An API resource. `api_version` as in manifests ("v1", "apps/v1")."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type`: ADDED, MODIFIED or DELETED. A new list after a gap gives DELETED for removed objects and ADDED for
    existing ones.
    """

    type: str
    object: dict[str, Any]


NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("v1", "Node", "nodes", namespaced=False)
POD = Kind("v1", "Pod", "pods")
SERVICE = Kind("v1", "Service", "services")
SECRET = Kind("v1", "Secret", "secrets")
ENDPOINTS = Kind("v1", "Endpoints", "endpoints")
PERSISTENT_VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENT = Kind("events.k8s.io/v1", "Event", "events")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses")
GRPC_ROUTE = Kind("gateway.networking.k8s.io/v1", "GRPCRoute", "grpcroutes")
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes")
"""Exists only where the Gateway API is installed."""
TLS_ROUTES = tuple(
    Kind(f"gateway.networking.k8s.io/{version}", "TLSRoute", "tlsroutes") for version in ("v1", "v1alpha3", "v1alpha2")
)
"""One kind in the versions that the Gateway API has given it; a cluster serves some of them."""
INGRESS_ROUTE = Kind("traefik.io/v1alpha1", "IngressRoute", "ingressroutes")
INGRESS_ROUTE_TCP = Kind("traefik.io/v1alpha1", "IngressRouteTCP", "ingressroutetcps")
STORAGE_CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False)
MANIFEST = Kind("akash.network/v2beta2", "Manifest", "manifests")
PROVIDER_HOST = Kind("akash.network/v2beta2", "ProviderHost", "providerhosts")
PROVIDER_LEASED_IP = Kind("akash.network/v2beta2", "ProviderLeasedIP", "providerleasedips")
KUBE_LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
"""Which process of a provider leads; not a lease of a tenant."""
IP_ADDRESS_POOL = Kind("metallb.io/v1beta1", "IPAddressPool", "ipaddresspools")
L2_ADVERTISEMENT = Kind("metallb.io/v1beta1", "L2Advertisement", "l2advertisements")

_KINDS = {(kind.api_version, kind.kind): kind for kind in [*globals().values(), *TLS_ROUTES] if isinstance(kind, Kind)}


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """The kind of a manifest. Raises ValueError for one that the provider does not write."""
    key = (obj.get("apiVersion"), obj.get("kind"))
    if key not in _KINDS:
        raise ValueError(f"{key[0]} {key[1]} is not a kind of the provider: add it to provider.protocols.cluster")
    return _KINDS[key]


class Cluster(Protocol):
    """The Kubernetes API: read, watch, small writes of plain manifests. Raises `ClusterError` with its address."""

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None: ...

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]: ...

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        """The existing objects, then every change, for ever; lists again by itself where it must. `known`: the objects
        that the caller listed before, read once; those that were deleted before the watch began come first, as DELETED.
        `current` is called with True when all that exists was reported and changes follow, with False when the
        connection to the API server is lost.
        """
        ...

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply with the provider's field manager; `status`: to the status subresource; `dry_run`: all but
        the writing. Returns the stored object.
        """
        ...

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        """JSON merge patch (RFC 7386): None removes a field, a list is replaced. `metadata.resourceVersion` in
        `changes` is a precondition; raises `Conflict`. Returns the stored object.
        """
        ...

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> bool:
        """Make the provider's field manager the owner of every field that the writer of the label `label` owns, so that
        the next apply removes what it does not set. The object itself does not change. False when there is nothing to
        take over; raises `Conflict` when the object changes meanwhile.
        """
        ...

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        """Delete the object; False when there is none. With `resource_version` only that version is deleted; raises
        `Conflict` for another.
        """
        ...
