"""Changes of the cluster that network policies depend on, followed while the provider runs: a control plane gets other
machines, and nodes join, without a restart of the provider.

The policies of services that may ask the API server name each of its backends. The addresses of nodes and API server
are closed to all other tenants. A lease whose policies change rolls no pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network

import structlog

from lease.spec import ClusterFacts
from provider.daemon.lease_specs import api_server_endpoints, node_addresses, outside_closed_ranges
from provider.errors import ClusterError, SettingsError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import NODE
from provider.settings import Settings
from provider.waits import wait_for_event

__all__ = ["Sightings", "follow_facts"]

_EVERY_S = 30.0
_BACKEND_KEPT_S = 600.0
"""A backend that restarts is away for a moment: its policies stay for that time."""
_CLOSED_KEPT_S = 86400.0
"""The address of a machine that is gone stays closed for a day: nodes that come and go would change every lease's
policies at each step, and a machine that is away for a moment is no less the provider's.
"""
_TOGETHER_S = 1.0
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
    start, nodes = facts, _Nodes(cluster, clock)
    backends = Sightings(facts.api_server_endpoints, now=clock.monotonic(), kept_s=_BACKEND_KEPT_S)
    closed = Sightings((), now=clock.monotonic(), kept_s=_CLOSED_KEPT_S)
    async with asyncio.TaskGroup() as group:
        group.create_task(nodes.follow())
        while True:
            await nodes.wait()
            asked = facts.api_server_endpoints if settings.api_server_endpoints else await _endpoints(cluster)
            # no endpoint at all is no answer: tenants keep the way that they have
            endpoints = backends.saw(asked, now=clock.monotonic()) if asked else facts.api_server_endpoints
            own = closed.saw((*_addresses(endpoints), *nodes.addresses), now=clock.monotonic())
            always = _without(start.own_addresses, (*_addresses(start.api_server_endpoints), *nodes.first))
            newest = _facts(start, endpoints, (*always, *own), closed=settings.closed_ranges)
            if _differ(newest, facts):
                _log.info("daemon.cluster_changed", backends=endpoints, own_addresses=newest.own_addresses)
                facts = newest
                changed(facts)


class _Nodes:
    """The addresses of the cluster's nodes, as a watch reports them. `first`: those of the nodes that were there when
    they were read for the first time, empty until then.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.first: Sequence[str] = ()
        self._cluster, self._clock = cluster, clock
        self._of: dict[str, Sequence[str]] = {}
        self._changed = asyncio.Event()

    @property
    def addresses(self) -> Sequence[str]:
        return tuple(text for each in self._of.values() for text in each)

    async def wait(self) -> None:
        """Return half a minute later, or when the addresses have changed: a second later, since nodes join together."""
        await wait_for_event(self._changed, clock=self._clock, seconds=_EVERY_S)
        if self._changed.is_set():
            await self._clock.sleep(_TOGETHER_S)
            self._changed.clear()

    async def follow(self) -> None:
        """Keep the addresses of each node by its name, for ever."""
        while True:
            try:
                async for event in self._cluster.watch(NODE, current=self._read):
                    name = str(event.object["metadata"]["name"])
                    self._note(name, () if event.type == "DELETED" else node_addresses(event.object))
            except ClusterError as error:
                _log.warning("daemon.nodes_unreadable", problem=str(error))
            await self._clock.sleep(_EVERY_S)

    def _note(self, name: str, addresses: Sequence[str]) -> None:
        if self._of.get(name, ()) != addresses:
            self._of[name] = addresses
            self._changed.set()

    def _read(self, complete: bool) -> None:
        if complete and not self.first:
            self.first = self.addresses


async def _endpoints(cluster: Cluster) -> tuple[str, ...]:
    try:
        return await api_server_endpoints(cluster)
    except (ClusterError, SettingsError):
        return ()


def _addresses(endpoints: Iterable[str]) -> Sequence[str]:
    return [endpoint.rpartition(":")[0].strip("[]") for endpoint in endpoints]


def _without(networks: Iterable[str], addresses: Iterable[str]) -> Sequence[str]:
    """Each address of the networks that is not among `addresses`: at the start, the API server's own. The networks are
    addresses of machines that were joined, so they are few.
    """
    gone = frozenset(addresses)
    return [text for network in networks for each in IPv4Network(network) if (text := str(each)) not in gone]


def _facts(start: ClusterFacts, endpoints: Sequence[str], own: Iterable[str], *, closed: Iterable[str]) -> ClusterFacts:
    """The facts at the start with what has come since, and without what has gone."""
    own = outside_closed_ranges(own, closed)
    return start.model_copy(update={"api_server_endpoints": tuple(endpoints), "own_addresses": own})


def _differ(one: ClusterFacts, other: ClusterFacts) -> bool:
    backends = set(one.api_server_endpoints) != set(other.api_server_endpoints)
    return backends or one.own_addresses != other.own_addresses
