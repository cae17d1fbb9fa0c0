"""What has to be known before the loops start, asked for until it is: a node that is away only delays us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from lease.spec import ClusterFacts
from provider.chain.comet import CometChain
from provider.errors import ChainError, ClusterError, SettingsError, WrongChain
from provider.protocols import Clock, Cluster
from provider.protocols.chain import Head
from provider.protocols.cluster import ENDPOINTS
from provider.settings import Settings
from provider.store import Database
from provider.store.cursors import last_chain

__all__ = ["api_server_endpoints", "cluster_facts", "insist", "our_chain"]

_log = structlog.get_logger(__name__)
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_NODE_SECONDS = 5.0
_T = TypeVar("_T")


async def insist(ask: Callable[[], Awaitable[_T]], *, clock: Clock, event: str) -> _T:
    """`ask` until it answers, with growing pauses; each failure is logged as `event` and names the address.

    A wrong chain is not waited for: it is somebody's mistake.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await ask()
        except WrongChain:
            raise
        except (ChainError, ClusterError) as error:
            _log.warning(event, problem=str(error), next_try_s=pause)
            await clock.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)


async def our_chain(chain: CometChain, database: Database, *, clock: Clock) -> str:
    """The id of our chain. Where it is known, by the setting or from the last run, a node that is away or catching up
    delays nothing: what runs is served and guarded, and bids begin when the node is back (field problem F9). Else the
    first node is waited for, and its word taken.
    """
    known = chain.chain_id or await last_chain(database)
    chain.expect(known)
    if not known:
        return (await insist(lambda: _caught_up(chain), clock=clock, event="chain.unreachable")).chain_id
    try:
        async with asyncio.timeout(_NODE_SECONDS):
            await _caught_up(chain)
    except WrongChain:
        raise
    except (ChainError, TimeoutError) as error:
        problem = str(error) or f"{chain.address} did not answer within {_NODE_SECONDS:g} s"
        _log.warning("chain.started_without", chain_id=known, problem=problem)
    return known


async def _caught_up(chain: CometChain) -> Head:
    head = await chain.head()
    if head.catching_up:
        raise ChainError(chain.address, f"is still catching up (height {head.height})")
    _log.info("chain.found", node=chain.address, chain_id=head.chain_id, height=head.height)
    return head


async def cluster_facts(settings: Settings, cluster: Cluster, *, clock: Clock) -> ClusterFacts:
    """The settings about the cluster, with the API server's endpoints looked up where they are not set."""
    endpoints = settings.api_server_endpoints
    if settings.network_policies and not endpoints:
        endpoints = await insist(lambda: api_server_endpoints(cluster), clock=clock, event="cluster.unreachable")
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


async def api_server_endpoints(cluster: Cluster) -> tuple[str, ...]:
    """`address:port` of every backend of `default/kubernetes` (kubernetes-objects.md §2.2); none: `SettingsError`."""
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
