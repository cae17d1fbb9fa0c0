"""Keeps the inventory: lists, then watches nodes, pods, claims, Services and leased addresses, and lists again
every few minutes.

Each object is reduced at once to the data that counts, so that a large cluster costs little memory.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from lease.ids import namespace_name
from provider.bus import INVENTORY_CHANGED
from provider.claims.leased_ips import AddressClaim, address_claims
from provider.inventory import reading
from provider.inventory.address_pools import AddressPool, address_pool, leasable_addresses, outside_addresses
from provider.inventory.freshness import Freshness
from provider.inventory.published import PublishedStorage, ReadStorage
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, VolumeClaim
from provider.inventory.sources import Source, SourceReader
from provider.protocols import Bus, Clock, Cluster
from provider.protocols.cluster import (
    IP_ADDRESS_POOL,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PROVIDER_LEASED_IP,
    SERVICE,
)
from provider.settings import Settings
from provider.units import AddressRange

__all__ = ["InventoryWatcher"]

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)
_DRAINED_S = 3.0
_SETTLE_S = 0.2
"""Changes come in bursts (a StatefulSet of fifty pods), and one announcement covers them."""


def _claim(obj: Mapping[str, Any]) -> AddressClaim | None:
    return next(iter(address_claims([obj]).values()), None)


class InventoryWatcher:
    """`inventory` is the newest inventory. `run` must run as a task; `ready` waits until every kind was listed once.

    `storage`: reads what the inventory operator publishes; sizes that the settings name hold instead of it. `drained`:
    nodes that take no new lease.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        *,
        bus: Bus,
        clock: Clock,
        storage: ReadStorage | None = None,
        drained: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._bus = bus
        self._clock = clock
        self._changed = asyncio.Event()
        self._drained = drained
        self._left_out: frozenset[str] = frozenset()
        self._newest: Inventory | None = None
        self.freshness = Freshness(cluster, namespace=settings.manifest_namespace, clock=clock)
        self._reader = SourceReader(cluster, clock=clock, readings=self.freshness, changed=lambda *_: self._touch())
        self._storage = PublishedStorage(storage, clock=clock, changed=self._touch) if storage else None
        self._nodes = Source(NODE, reading.node)
        self._pods = Source(POD, reading.scheduled_pod, built_in=True)
        self._volumes = Source(PERSISTENT_VOLUME_CLAIM, reading.volume_claim, built_in=True)
        self._kept = Source(PERSISTENT_VOLUME, reading.kept_volume)
        self._services = Source(SERVICE, reading.node_ports, built_in=True)
        self._addresses = Source(PROVIDER_LEASED_IP, _claim, namespace=settings.manifest_namespace)
        self._outside = Source(SERVICE, outside_addresses)
        self._address_pools = Source(IP_ADDRESS_POOL, address_pool, namespace=settings.metallb_namespace)

    @property
    def inventory(self) -> Inventory:
        """The inventory from the lists and the watch events so far."""
        if self._newest is None:
            self._newest = self._compose()
        return self._newest

    @property
    def complete(self) -> bool:
        """Whether every kind has been listed once."""
        return all(source.listed.is_set() for source in self._sources())

    async def ready(self) -> None:
        """Return when every kind has been listed once; decisions before that would decline orders that fit."""
        for source in self._sources():
            await source.listed.wait()
        if self._storage is not None:
            await self._storage.tried.wait()

    async def run(self) -> None:
        """Watches for ever. An API server that does not answer is logged and asked again; the inventory stays as it
        was.
        """
        async with asyncio.TaskGroup() as group:
            for source in self._sources():
                group.create_task(self._reader.keep(source), name=f"inventory {source.kind.plural}")
            if self._storage is not None:
                group.create_task(self._storage.run(), name="inventory storage")
            group.create_task(self._announce(), name="inventory announcements")
            group.create_task(self.freshness.run(), name="inventory freshness")
            if self._drained is not tuple:
                group.create_task(self._follow_drained(), name="inventory drained nodes")

    def _sources(self) -> tuple[Source, ...]:
        always = (self._nodes, self._pods, self._volumes, self._kept, self._services, self._addresses)
        pools = (self._address_pools,) if self._settings.addresses_leased else ()
        return (*always, *pools, self._outside) if self._settings.ip_pools else (*always, *pools)

    def _touch(self) -> None:
        self._newest = None
        self._changed.set()

    async def _follow_drained(self) -> None:
        """Nodes are drained and undrained by a command, and a drain may end by itself."""
        while True:
            if frozenset(self._drained()) != self._left_out:
                self._touch()
            await self._clock.sleep(_DRAINED_S)

    async def _announce(self) -> None:
        while True:
            await self._changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self._changed.clear()
            self._bus.publish(INVENTORY_CHANGED, None)

    def _compose(self) -> Inventory:
        self._left_out = frozenset(self._drained())
        taken = _taken(_all(self._addresses, AddressClaim), self._leased_ranges())
        count, pooled = self._leasable(taken)
        return Inventory(
            nodes=tuple(
                sorted(
                    (node for node in _all(self._nodes, Node) if node.name not in self._left_out),
                    key=lambda node: node.name,
                )
            ),
            pods=tuple(_all(self._pods, ScheduledPod)),
            claims=(*_all(self._volumes, VolumeClaim), *_all(self._kept, VolumeClaim)),
            pool_bytes={**(self._storage.pools if self._storage else {}), **self._settings.storage_classes},
            address_count=count,
            addresses=taken,
            pooled=pooled,
            node_port_count=_width(self._settings.node_port_range),
            node_ports=_by_namespace(self._services.known),
        )

    def _leasable(self, claimed: Iterable[str]) -> tuple[int, dict[str, int]]:
        """How many addresses can be leased at all, and what other pools hold of them; none without MetalLB."""
        if self._address_pools.absent:
            return 0, {}
        count, held = leasable_addresses(
            _all(self._address_pools, AddressPool),
            ranges=self._settings.ip_ranges,
            names=self._settings.ip_pools,
            claimed=claimed,
            outside=frozenset[str]().union(*_all(self._outside, frozenset)),
        )
        pooled = {pool.name: count for pool, count in sorted(held.items(), key=lambda item: item[0].name)}
        own = {pool.name for pool in held if pool.of_lease}
        return count, {name: held for name, held in pooled.items() if name not in own}

    def _leased_ranges(self) -> tuple[AddressRange, ...]:
        named = (pool for pool in _all(self._address_pools, AddressPool) if pool.name in self._settings.ip_pools)
        return (*self._settings.ip_ranges, *(one for pool in named for one in pool.ranges))


def _all(source: Source, kind: type[_T]) -> Iterable[_T]:
    return (item for item in source.known.values() if isinstance(item, kind))


def _width(ports: str) -> int:
    first, _, last = ports.partition("-")
    return int(last) - int(first) + 1


def _by_namespace(known: Mapping[tuple[str, str], object]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for (namespace, _), count in known.items():
        if isinstance(count, int):
            counts[namespace] = counts.get(namespace, 0) + count
    return counts


def _taken(claims: Iterable[AddressClaim], ranges: Sequence[AddressRange]) -> dict[str, frozenset[str]]:
    """Addresses of the ranges that are claimed → the namespaces of their leases."""
    taken: dict[str, frozenset[str]] = {}
    for claim in claims:
        if claim.address and any(ipaddress.ip_address(claim.address) in one for one in ranges):
            taken[claim.address] = taken.get(claim.address, frozenset()) | {namespace_name(claim.lease)}
    return taken
