"""The removal of address pools that no lease claims any more (docs/architecture.md §5): stacks only forget them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from components.labels import ALLOW_SHARED_IP, SERVICE_TARGET, SHARING_KEY_HASH
from lease.addresses import pool_name
from lease.ids import LeaseId, namespace_name
from provider.claims.addresses import pool_addresses
from provider.claims.leased_ips import AddressClaim
from provider.errors import ClusterError, Conflict
from provider.kube.labels import MANAGED
from provider.protocols import Cluster
from provider.protocols.cluster import IP_ADDRESS_POOL, L2_ADVERTISEMENT, PROVIDER_LEASED_IP, SERVICE, Kind

__all__ = [
    "addresses_of_services",
    "is_lease_pool",
    "leaving_ports",
    "list_pools",
    "pool_of",
    "remove_unused_pools",
    "served_addresses",
    "service_addresses",
]

_ON_ADDRESSES = {**MANAGED, SERVICE_TARGET: "metal-lb"}
_POOL = "metallb.io/address-pool"
_CHOSEN = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs")


async def list_pools(cluster: Cluster, *, namespace: str, kind: Kind = IP_ADDRESS_POOL) -> list[dict[str, Any]]:
    """Every pool (or advertisement) in MetalLB's namespace, whoever made it. A cluster without MetalLB has none."""
    try:
        return await cluster.list(kind, namespace=namespace)
    except ClusterError as error:
        if error.status == 404:
            return []
        raise


async def remove_unused_pools(cluster: Cluster, *, claims_namespace: str, metallb_namespace: str) -> tuple[str, ...]:
    """Delete this provider's pools and advertisements whose key no ProviderLeasedIP has. Returns their names.

    Pools are listed before claims: a claim is written before its pool is made, so a pool seen here whose claim is not
    in the later list has none. Only the version that was seen is deleted; a changed pool waits for the next time, and
    no pool is removed while a claim cannot be read. A pool that a Service uses stays: a claim that somebody deleted is
    written again with the address of its pool, and the claims of another provider are not in the list.
    """
    removed: list[str] = []
    for kind in (L2_ADVERTISEMENT, IP_ADDRESS_POOL):
        managed = [
            obj for obj in await list_pools(cluster, namespace=metallb_namespace, kind=kind) if is_lease_pool(obj)
        ]
        removed += [
            obj["metadata"]["name"]
            for obj in await _unused(cluster, managed, claims_namespace)
            if await _delete(cluster, kind, obj, metallb_namespace)
        ]
    return tuple(removed)


async def leaving_ports(cluster: Cluster, claims: Iterable[AddressClaim], lease: LeaseId) -> frozenset[str]:
    """The names of those claims whose port a Service of another lease still serves on the same address. MetalLB would
    give a second Service no address. Raises `ClusterError`.
    """
    wanted = {(claim.key, claim.external_port, claim.proto): claim.name for claim in claims}
    services = await cluster.list(SERVICE, labels=_ON_ADDRESSES) if wanted else []
    others = (service for service in services if service["metadata"].get("namespace") != namespace_name(lease))
    return frozenset(wanted[port] for service in others for port in _ports(service) if port in wanted)


async def served_addresses(cluster: Cluster) -> dict[str, str]:
    """The address of each sharing key as MetalLB has given it to a Service. Raises `ClusterError`."""
    given = {}
    for service in await cluster.list(SERVICE, labels=_ON_ADDRESSES):
        key = (service["metadata"].get("annotations") or {}).get(ALLOW_SHARED_IP)
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        if key and ingress and ingress[0].get("ip"):
            given[str(key)] = str(ingress[0]["ip"])
    return given


async def addresses_of_services(cluster: Cluster) -> frozenset[str]:
    """The addresses that any Service of the cluster has, or asks for. Raises `ClusterError`."""
    return frozenset(address for service in await cluster.list(SERVICE) for address in service_addresses(service))


def service_addresses(service: Mapping[str, Any]) -> frozenset[str]:
    """The addresses that a Service of type LoadBalancer has, or asks for, in their plain form."""
    spec, annotations = service.get("spec") or {}, service["metadata"].get("annotations") or {}
    if spec.get("type") != "LoadBalancer":
        return frozenset()
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    asked = [str(annotations.get(name) or "") for name in _CHOSEN]
    texts = [str(each.get("ip") or "") for each in ingress] + [str(spec.get("loadBalancerIP") or ""), *asked]
    return frozenset(found for text in ",".join(texts).split(",") if (found := _plain(text.strip())))


def _plain(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def _ports(service: dict[str, Any]) -> Iterable[tuple[str, int, str]]:
    key = str((service["metadata"].get("annotations") or {}).get(ALLOW_SHARED_IP))
    for port in (service.get("spec") or {}).get("ports") or ():
        yield key, int(port["port"]), str(port.get("protocol") or "TCP").upper()


async def _unused(cluster: Cluster, managed: list[dict[str, Any]], claims_namespace: str) -> list[dict[str, Any]]:
    """Those of `managed` that nothing uses. Makes no further request when all are claimed."""
    if not managed:
        return []
    claimed = {_pool_of(claim) for claim in await cluster.list(PROVIDER_LEASED_IP, namespace=claims_namespace)}
    left = [obj for obj in managed if obj["metadata"]["name"] not in claimed]
    if "" in claimed or not left:
        return []
    services = await cluster.list(SERVICE, labels=_ON_ADDRESSES)
    served = {(service["metadata"].get("annotations") or {}).get(_POOL) for service in services}
    return [obj for obj in left if obj["metadata"]["name"] not in served]


def _pool_of(claim: dict[str, Any]) -> str:
    key = (claim.get("spec") or {}).get("sharing_key")
    return pool_name(str(key)) if key else ""


def pool_of(address: str, pools: Iterable[Mapping[str, Any]]) -> str:
    """The name of the pool that holds the address and that somebody else made, an operator for a Go provider; empty for
    none.
    """
    wanted = ipaddress.ip_address(address)
    others = (pool for pool in pools if not is_lease_pool(pool))
    return next(
        (pool["metadata"]["name"] for pool in others if any(wanted in one for one in pool_addresses([pool]))), ""
    )


def is_lease_pool(obj: Mapping[str, Any]) -> bool:
    """Whether a provider has made the pool, or the advertisement, for a sharing key."""
    meta = obj["metadata"]
    return bool(meta["name"] == f"ip-{(meta.get('labels') or {}).get(SHARING_KEY_HASH)}")


async def _delete(cluster: Cluster, kind: Kind, obj: dict[str, Any], namespace: str) -> bool:
    meta = obj["metadata"]
    try:
        return await cluster.delete(kind, meta["name"], namespace=namespace, resource_version=meta["resourceVersion"])
    except Conflict:
        return False
