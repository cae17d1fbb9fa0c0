"""Changes of the cluster that network policies depend on, followed while the provider runs: a control plane gets other
machines, and nodes join, without a restart of the provider.

The policies of services that may ask the API server name each of its backends. The addresses of nodes and API server
are closed to all other tenants. A lease whose policies change rolls no pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog

from lease.spec import ClusterFacts
from provider.daemon.lease_specs import api_server_endpoints, node_addresses, outside_closed_ranges
from provider.errors import ClusterError, SettingsError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import NODE
from provider.settings import Settings

__all__ = ["Sightings", "follow_facts"]

_EVERY_S = 30.0
_BACKEND_KEPT_S = 600.0
"""A backend that restarts is away for a moment: its policies stay for that time."""
_NODE_KEPT_S = 86400.0
"""The address of a node that is gone stays closed for a day: nodes that come and go would change every lease's policies
at each step.
"""
_log = structlog.get_logger(__name__)


class Sightings:
    """The texts that count now: those of the last answer, and those that were in one at most `kept_s` ago."""

    def __init__(self, found: Iterable[str], *, now: float, kept_s: float) -> None:
        self._seen = dict.fromkeys(found, now)
        self._kept_s = kept_s

    def saw(self, found: Iterable[str], *, now: float) -> tuple[str, ...]:
        """Note an answer. Returns the texts that count, in the order in which they were first seen."""
        self._seen |= dict.fromkeys(found, now)
        self._seen = {text: at for text, at in self._seen.items() if now - at < self._kept_s}
        return tuple(self._seen)


async def follow_facts(
    settings: Settings, cluster: Cluster, facts: ClusterFacts, *, clock: Clock, changed: Callable[[ClusterFacts], None]
) -> None:
    """Call `changed` with new facts whenever other backends or other addresses count. Runs until cancelled; returns at
    once where no network policies are made. Backends that the settings name are not asked for.
    """
    if not settings.network_policies:
        return
    start, now = facts, clock.monotonic()
    backends = Sightings(facts.api_server_endpoints, now=now, kept_s=_BACKEND_KEPT_S)
    nodes, addresses = Sightings((), now=now, kept_s=_NODE_KEPT_S), dict[str, Sequence[str]]()
    async with asyncio.TaskGroup() as group:
        group.create_task(_watch_nodes(cluster, addresses, clock=clock))
        while True:
            await clock.sleep(_EVERY_S)
            asked = facts.api_server_endpoints if settings.api_server_endpoints else await _endpoints(cluster)
            # no endpoint at all is no answer: tenants keep the way that they have
            endpoints = backends.saw(asked, now=clock.monotonic()) if asked else facts.api_server_endpoints
            joined = nodes.saw((text for each in addresses.values() for text in each), now=clock.monotonic())
            newest = _facts(start, endpoints, joined, closed=settings.closed_ranges)
            if _differ(newest, facts):
                _log.info("daemon.cluster_changed", backends=endpoints, own_addresses=newest.own_addresses)
                facts = newest
                changed(facts)


async def _watch_nodes(cluster: Cluster, addresses: dict[str, Sequence[str]], *, clock: Clock) -> None:
    """Keep the addresses of each node by its name, for ever."""
    while True:
        try:
            async for event in cluster.watch(NODE):
                name = str(event.object["metadata"]["name"])
                addresses[name] = () if event.type == "DELETED" else node_addresses(event.object)
        except ClusterError as error:
            _log.warning("daemon.nodes_unreadable", problem=str(error))
        await clock.sleep(_EVERY_S)


async def _endpoints(cluster: Cluster) -> tuple[str, ...]:
    try:
        return await api_server_endpoints(cluster)
    except (ClusterError, SettingsError):
        return ()


def _facts(
    start: ClusterFacts, endpoints: Sequence[str], nodes: Iterable[str], *, closed: Iterable[str]
) -> ClusterFacts:
    """The facts at the start, which hold the API server's own address, with what has come since."""
    backends = [endpoint.rpartition(":")[0].strip("[]") for endpoint in endpoints]
    own = outside_closed_ranges((*start.own_addresses, *backends, *nodes), closed)
    return start.model_copy(update={"api_server_endpoints": tuple(endpoints), "own_addresses": own})


def _differ(one: ClusterFacts, other: ClusterFacts) -> bool:
    backends = set(one.api_server_endpoints) != set(other.api_server_endpoints)
    return backends or one.own_addresses != other.own_addresses
