"""The hostnames that the cluster's shared edge serves for somebody else: the hosts of Ingresses and of routes of the
Gateway API and of Traefik that Lessor did not make, such as an operator's dashboard.

A tenant who got such a hostname would receive the other's requests, with their cookies and passwords.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from components.labels import AKASH
from lease.hostnames import covers
from lease.ids import LeaseId, namespace_name
from provider.errors import ClusterError
from provider.kube.labels import MANAGED
from provider.protocols import Cluster
from provider.protocols.cluster import (
    GRPC_ROUTE,
    HTTP_ROUTE,
    INGRESS,
    INGRESS_ROUTE,
    INGRESS_ROUTE_TCP,
    TLS_ROUTES,
    Kind,
)

__all__ = ["NO_ROUTES", "ForeignRoutes", "foreign_routes", "leaving_hosts"]

_NOT_MANAGED: Mapping[str, str | None] = {AKASH: None}
_NO_SUCH_KIND = 404
_NO_RIGHT = 403
_READ = ((INGRESS,), (HTTP_ROUTE,), (GRPC_ROUTE,), TLS_ROUTES, (INGRESS_ROUTE,), (INGRESS_ROUTE_TCP,))
"""Each kind of route, in its versions: the first one that the cluster serves is read."""
_WRITTEN = (INGRESS, HTTP_ROUTE)
"""Kinds that an account of every cluster stack may read. An account of an older one has no right to read the others,
and its tenants must get their hostnames all the same.
"""
_MATCHED = re.compile(r"(?<![\w`\"])Host(?:SNI)?\(([^)]*)\)")
_QUOTED = re.compile(r"[`\"]([^`\"]+)[`\"]")


@dataclass(frozen=True, slots=True)
class ForeignRoutes:
    """`exact`: hostnames in lower case. `suffixes`: of wildcards, `.example.com` for `*.example.com`."""

    exact: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()

    def serve(self, hostname: str) -> bool:
        """Whether a route names exactly this hostname."""
        return hostname in self.exact or (hostname.startswith("*.") and hostname[1:] in self.suffixes)

    def cover(self, hostname: str) -> bool:
        """Whether a route serves this hostname, by its name or by a wildcard, or a name that this wildcard covers."""
        others = (*(f"*{suffix}" for suffix in self.suffixes), *(self.exact if hostname.startswith("*.") else ()))
        return self.serve(hostname) or any(covers(one, hostname) or covers(hostname, one) for one in others)


NO_ROUTES = ForeignRoutes()


async def foreign_routes(cluster: Cluster) -> ForeignRoutes:
    """The routes of the whole cluster without those of leases, one list for each kind. Raises `ClusterError`."""
    listed = await asyncio.gather(*(_listed(cluster, versions) for versions in _READ))
    hosts = {host.lower() for objects in listed for obj in objects for host in _hosts(obj)}
    wild = {host for host in hosts if host.startswith("*.")}
    return ForeignRoutes(frozenset(hosts - wild), frozenset(host[1:] for host in wild))


async def leaving_hosts(cluster: Cluster, hostnames: Collection[str], lease: LeaseId) -> frozenset[str]:
    """Those of `hostnames` that an Ingress or HTTPRoute of another lease still serves. The edge would refuse a second
    one of the same name. Raises `ClusterError`.
    """
    if not hostnames:
        return frozenset()
    listed = await asyncio.gather(*(_listed(cluster, (kind,), labels=MANAGED) for kind in _WRITTEN))
    others = (obj for objects in listed for obj in objects if obj["metadata"].get("namespace") != namespace_name(lease))
    return frozenset(host.lower() for obj in others for host in _hosts(obj)) & frozenset(hostnames)


async def _listed(
    cluster: Cluster, versions: Iterable[Kind], *, labels: Mapping[str, str | None] = _NOT_MANAGED
) -> list[dict[str, Any]]:
    for kind in versions:
        try:
            return await cluster.list(kind, labels=labels)
        except ClusterError as error:
            if error.status == _NO_RIGHT and kind not in _WRITTEN:
                return []
            if error.status != _NO_SUCH_KIND:
                raise
    return []


def _hosts(obj: Mapping[str, Any]) -> Iterable[str]:
    """Hosts of an Ingress's rules, hostnames of a route of the Gateway API, hosts in the rules of a Traefik route.

    A route without any serves every hostname that no other route names; it takes none, nor does a regular expression. A
    host that only a TLS entry names is served nowhere.
    """
    spec = obj.get("spec") or {}
    for rule in spec.get("rules") or ():
        if host := rule.get("host"):
            yield str(host)
    yield from map(str, spec.get("hostnames") or ())
    for route in spec.get("routes") or ():
        for hosts in _MATCHED.findall(str(route.get("match") or "")):
            yield from _QUOTED.findall(hosts)
