"""The facts about the cluster that a LeaseSpec needs, also for commands that run beside the daemon."""

from __future__ import annotations

from lease.spec import ClusterFacts
from provider.errors import SettingsError
from provider.protocols import Cluster
from provider.protocols.cluster import ENDPOINTS
from provider.settings import Settings

__all__ = ["cluster_facts"]


async def cluster_facts(settings: Settings, cluster: Cluster) -> ClusterFacts:
    """The settings about the cluster, with the endpoints of the API server read from the cluster where they are needed
    and not set. Raises `ClusterError`, and `SettingsError` when the cluster has none.
    """
    endpoints = settings.api_server_endpoints
    if settings.network_policies and not endpoints:
        endpoints = await _api_server_endpoints(cluster)
    return ClusterFacts(
        ingress_mode=settings.ingress_mode,
        ingress_class=settings.ingress_class,
        gateway_name=settings.gateway_name,
        gateway_namespace=settings.gateway_namespace,
        proxy_buffer_size=settings.proxy_buffer_size,
        public_hostname=settings.public_hostname,
        network_policies=settings.network_policies,
        api_server_endpoints=endpoints,
        metallb_namespace=settings.metallb_namespace,
        pull_secret=settings.pull_secret.strip(),
        edge_namespace=settings.edge_namespace,
        edge_labels=settings.edge_labels,
        node_dns=settings.node_dns,
        closed_ranges=settings.closed_ranges,
    )


async def _api_server_endpoints(cluster: Cluster) -> tuple[str, ...]:
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
