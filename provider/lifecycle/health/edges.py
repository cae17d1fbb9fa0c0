"""What the cluster says of a lease's addresses and hostnames: a Service without its leased address serves nobody, nor
does a route that the gateway refuses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.leased_ip import leased_ip_service
from lease.hostnames import route_name
from lease.spec import IngressMode, LeaseSpec
from provider.lifecycle.health.pods import shortened
from provider.protocols import Cluster
from provider.protocols.cluster import HTTP_ROUTE, SERVICE

__all__ = ["edge_state", "edge_troubles", "given_addresses"]

_REFUSALS = ("Accepted", "ResolvedRefs")
"""Conditions of a route that must not be False."""


async def edge_troubles(cluster: Cluster, spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each leased port without its address and for each route that the gateway refuses. Objects that do not
    exist are left out: a comparison finds them. Raises `ClusterError`.
    """
    found = []
    if spec.leased_ips:
        services = _by_name(await cluster.list(SERVICE, namespace=spec.namespace))
        for leased in spec.leased_ips:
            service = services.get(leased_ip_service(spec, leased)["metadata"]["name"])
            if service is not None and _address(leased.address) not in given_addresses(service):
                port = f"port {leased.external_port}/{leased.proto.upper()}"
                found.append(f"service {leased.service}: {port} waits for its address {leased.address}")
    if spec.hostnames and spec.cluster.ingress_mode is IngressMode.GATEWAY_API:
        routes = _by_name(await cluster.list(HTTP_ROUTE, namespace=spec.namespace))
        for host in spec.hostnames:
            for refusal in _refusals(routes.get(route_name(host.hostname), {})):
                found.append(shortened(f"service {host.service}: hostname {host.hostname} is not served: {refusal}"))
    return tuple(found)


def edge_state(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses that a Service got, or why its gateway refuses a route; empty for neither."""
    return (*given_addresses(obj), *_refusals(obj))


def given_addresses(service: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses on which a load balancer serves this Service, in the shortest form."""
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return tuple(_address(str(item["ip"])) for item in ingress if item.get("ip"))


def _refusals(route: Mapping[str, Any]) -> Iterator[str]:
    """Refusals of an older generation do not count."""
    generation = int((route.get("metadata") or {}).get("generation") or 0)
    for parent in (route.get("status") or {}).get("parents") or ():
        for condition in parent.get("conditions") or ():
            current = int(condition.get("observedGeneration") or generation) >= generation
            if condition.get("type") in _REFUSALS and condition.get("status") == "False" and current:
                texts = (str(condition.get(part) or "") for part in ("reason", "message"))
                yield " ".join(": ".join(filter(None, texts)).split()) or "no reason given"


def _by_name(objects: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {obj["metadata"]["name"]: obj for obj in objects if not obj["metadata"].get("deletionTimestamp")}


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text
