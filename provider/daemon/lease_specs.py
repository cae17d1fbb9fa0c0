"""The facts about the cluster that a LeaseSpec needs, also for commands that run beside the daemon."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog

from components.isolation import CLOSED_RANGES, MORE_CLOSED_RANGES
from lease.spec import ClusterFacts
from provider.errors import SettingsError
from provider.protocols import Cluster
from provider.protocols.cluster import ENDPOINTS, NODE
from provider.settings import Settings

__all__ = ["api_server_endpoints", "cluster_facts", "node_addresses", "outside_closed_ranges", "set_facts"]

_MOST_OF_NODE = 8
_LOOPBACK = "127.0.0.0/8"
"""In a pod the pod itself."""
_log = structlog.get_logger(__name__)


async def cluster_facts(settings: Settings, cluster: Cluster) -> ClusterFacts:
    """The settings about the cluster, with the endpoints of the API server read from the cluster where they are needed
    and not set. Raises `ClusterError`, and `SettingsError` when the cluster has none.
    """
    endpoints = settings.api_server_endpoints
    if settings.network_policies and not endpoints:
        endpoints = await api_server_endpoints(cluster)
    own = await _own_addresses(settings, cluster, endpoints) if settings.network_policies else ()
    return set_facts(settings).model_copy(update={"api_server_endpoints": endpoints, "own_addresses": own})


def set_facts(settings: Settings) -> ClusterFacts:
    """The facts that the settings name."""
    return ClusterFacts(
        ingress_mode=settings.ingress_mode,
        ingress_class=settings.ingress_class,
        gateway_name=settings.gateway_name,
        gateway_namespace=settings.gateway_namespace,
        proxy_buffer_size=settings.proxy_buffer_size,
        public_hostname=settings.public_hostname,
        network_policies=settings.network_policies,
        api_server_endpoints=settings.api_server_endpoints,
        metallb_namespace=settings.metallb_namespace,
        pull_secret=settings.pull_secret.strip(),
        edge_namespace=settings.edge_namespace,
        edge_labels=settings.edge_labels,
        node_dns=settings.node_dns,
        closed_ranges=settings.closed_ranges,
    )


async def _own_addresses(settings: Settings, cluster: Cluster, endpoints: Iterable[str]) -> tuple[str, ...]:
    """The addresses of nodes and API server that tenants could reach through the open internet. Raises
    `ClusterError`. `fact_changes` follows nodes that join later.
    """
    found = [endpoint.rpartition(":")[0].strip("[]") for endpoint in endpoints]
    for node in await cluster.list(NODE):
        found += node_addresses(node)
    found += await _resolved(urlsplit(str(getattr(cluster, "address", ""))).hostname or "")
    return outside_closed_ranges(found, settings.closed_ranges)


def node_addresses(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The first IPv4 addresses at which a node is reached. The node's kubelet writes them, and a network or a long list
    of a node that was broken into must not spoil the policies of every lease.
    """
    addresses = (node.get("status") or {}).get("addresses") or ()
    found = (str(item.get("address")) for item in addresses if item.get("type") in ("InternalIP", "ExternalIP"))
    return tuple(itertools.islice(filter(_is_address, found), _MOST_OF_NODE))


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


async def _resolved(host: str) -> list[str]:
    """The addresses of the API server as the kubeconfig names it."""
    if not host:
        return []
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError as error:
        _log.warning("daemon.api_server_unresolved", host=host, problem=str(error))
        return []
    return [str(answer[4][0]) for answer in answers]


def outside_closed_ranges(addresses: Iterable[str], closed: Iterable[str]) -> tuple[str, ...]:
    """The IPv4 networks of `addresses` that no closed range covers, joined where they are neighbours, in order. IPv6 is
    closed as a whole.
    """
    ranges = [ipaddress.IPv4Network(text) for text in (*CLOSED_RANGES, *MORE_CLOSED_RANGES, *closed, _LOOPBACK)]
    open_ones = set()
    for text in addresses:
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError:
            continue
        if not any(network.subnet_of(each) for each in ranges):
            open_ones.add(network)
    return tuple(map(str, ipaddress.collapse_addresses(open_ones)))


async def api_server_endpoints(cluster: Cluster) -> tuple[str, ...]:
    """`address:port` of every backend of `default/kubernetes` (kubernetes-objects.md §2.2). Raises `SettingsError` when
    there is none.
    """
    found = await cluster.get(ENDPOINTS, "kubernetes", namespace="default")
    addresses = tuple(
        f"{address['ip']}:{port['port']}"
        for subset in (found or {}).get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    )
    if not addresses:
        raise SettingsError(
            "network policies are on, but the API server's endpoints are not known: the cluster has no endpoints for "
            "default/kubernetes. Set LESSOR_API_SERVER_ENDPOINTS=address:port[,…], or "
            "AP_DEPLOYMENT_NETWORK_POLICIES_ENABLED=false to run tenants without isolation."
        )
    return addresses
