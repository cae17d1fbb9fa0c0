"""The hostnames that the cluster's shared edge serves for somebody else: the hosts of Ingresses, HTTPRoutes and
GRPCRoutes that Lessor did not make, such as an operator's dashboard.

A tenant who got such a hostname would receive the other's requests, with their cookies and passwords.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from components.labels import AKASH
from provider.errors import ClusterError
from provider.protocols import Cluster
from provider.protocols.cluster import GRPC_ROUTE, HTTP_ROUTE, INGRESS, Kind

__all__ = ["NO_ROUTES", "ForeignRoutes", "foreign_routes"]

_NOT_MANAGED = {AKASH: None}
_NO_SUCH_KIND = 404
_NO_RIGHT = 403
_ABSENT = {INGRESS: (_NO_SUCH_KIND,), HTTP_ROUTE: (_NO_SUCH_KIND,), GRPC_ROUTE: (_NO_SUCH_KIND, _NO_RIGHT)}
"""Answers that mean that there are no routes of a kind. An account of an older cluster stack has no right to read
GRPCRoutes, and its tenants must get their hostnames all the same.
"""


@dataclass(frozen=True, slots=True)
class ForeignRoutes:
    """`exact`: hostnames in lower case. `suffixes`: of wildcards, `.example.com` for `*.example.com`."""

    exact: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()

    def serve(self, hostname: str) -> bool:
        """Whether a route names exactly this hostname."""
        return hostname in self.exact

    def cover(self, hostname: str) -> bool:
        """Whether a route serves this hostname, by its name or by a wildcard."""
        return self.serve(hostname) or any(hostname.endswith(suffix) for suffix in self.suffixes)


NO_ROUTES = ForeignRoutes()


async def foreign_routes(cluster: Cluster) -> ForeignRoutes:
    """The routes of the whole cluster without those of leases, one list for each kind. Raises `ClusterError`."""
    listed = await asyncio.gather(*(_listed(cluster, kind) for kind in _ABSENT))
    hosts = {host.lower() for objects in listed for obj in objects for host in _hosts(obj)}
    wild = {host for host in hosts if host.startswith("*.")}
    return ForeignRoutes(frozenset(hosts - wild), frozenset(host[1:] for host in wild))


async def _listed(cluster: Cluster, kind: Kind) -> list[dict[str, Any]]:
    try:
        return await cluster.list(kind, labels=_NOT_MANAGED)
    except ClusterError as error:
        if error.status in _ABSENT[kind]:
            return []
        raise


def _hosts(route: Mapping[str, Any]) -> Iterable[str]:
    """Hosts of an Ingress's rules, hostnames of an HTTPRoute or GRPCRoute. A route without any serves every hostname
    that no other route names; it takes none. A host that only a TLS entry names is served nowhere.
    """
    spec = route.get("spec") or {}
    for rule in spec.get("rules") or ():
        if host := rule.get("host"):
            yield str(host)
    yield from map(str, spec.get("hostnames") or ())
