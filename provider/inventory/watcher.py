"""Keeps the inventory: lists, then watches nodes, pods, claims, Services and leased addresses, and lists again
every few minutes.

Each object is reduced at once to the data that counts, so that a large cluster costs little memory.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from lease.ids import namespace_name
from provider.bus import INVENTORY_CHANGED
from provider.claims.leased_ips import AddressClaim, address_claims
from provider.errors import ClusterError
from provider.inventory import reading
from provider.inventory.address_pools import AddressPool, address_pool, pooled_addresses
from provider.inventory.freshness import Freshness
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, VolumeClaim
from provider.protocols import Bus, Clock, Cluster
from provider.protocols.cluster import (
    IP_ADDRESS_POOL,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PROVIDER_LEASED_IP,
    SERVICE,
    Kind,
)
from provider.repeats import Repeats
from provider.settings import Settings

__all__ = ["InventoryWatcher"]

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)
_RELIST_S = 300.0
_RETRY_S = 5.0
_SETTLE_S = 0.2
"""Changes come in bursts (a StatefulSet of fifty pods), and one announcement covers them."""


@dataclass(slots=True)
class _Source:
    """One kind of object: `trim` reduces an object, `known` holds the results by (namespace, name)."""

    kind: Kind
    trim: Callable[[Mapping[str, Any]], object | None]
    namespace: str | None = None
    known: dict[tuple[str, str], object] = field(default_factory=dict)
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    absent: bool = False
    """The API server does not know the kind."""


def _claim(obj: Mapping[str, Any]) -> AddressClaim | None:
    return next(iter(address_claims([obj]).values()), None)


class InventoryWatcher:
    """`inventory` is the newest inventory. `run` must run as a task; `ready` waits until every kind was listed once."""

    def __init__(self, cluster: Cluster, settings: Settings, *, bus: Bus, clock: Clock) -> None:
        self._cluster = cluster
        self._settings = settings
        self._bus = bus
        self._clock = clock
        self._changed = asyncio.Event()
        self._newest: Inventory | None = None
        self._repeats = Repeats(clock.monotonic)
        self.freshness = Freshness(cluster, namespace=settings.manifest_namespace, clock=clock)
        self._nodes = _Source(NODE, reading.node)
        self._pods = _Source(POD, reading.scheduled_pod)
        self._volumes = _Source(PERSISTENT_VOLUME_CLAIM, reading.volume_claim)
        self._kept = _Source(PERSISTENT_VOLUME, reading.kept_volume)
        self._services = _Source(SERVICE, reading.node_ports)
        self._addresses = _Source(PROVIDER_LEASED_IP, _claim, namespace=settings.manifest_namespace)
        self._address_pools = _Source(IP_ADDRESS_POOL, address_pool, namespace=settings.metallb_namespace)

    @property
    def inventory(self) -> Inventory:
        """The inventory from the lists and the watch events so far."""
        if self._newest is None:
            self._newest = self._compose()
        return self._newest

    async def ready(self) -> None:
        """Return when every kind has been listed once; decisions before that would decline orders that fit."""
        for source in self._sources():
            await source.listed.wait()

    async def run(self) -> None:
        """Watches for ever. An API server that does not answer is logged and asked again; the inventory stays as it
        was.
        """
        async with asyncio.TaskGroup() as group:
            for source in self._sources():
                group.create_task(self._keep(source), name=f"inventory {source.kind.plural}")
            group.create_task(self._announce(), name="inventory announcements")
            group.create_task(self.freshness.run(), name="inventory freshness")

    def _sources(self) -> tuple[_Source, ...]:
        always = (self._nodes, self._pods, self._volumes, self._kept, self._services, self._addresses)
        return (*always, self._address_pools) if self._settings.ip_ranges else always

    async def _keep(self, source: _Source) -> None:
        while True:
            try:
                listed = iter(await self._list(source))  # an iterator read to its end keeps no object in memory
                async with asyncio.timeout(_RELIST_S):
                    await self._watch(source, listed)
            except TimeoutError:
                continue
            except ClusterError as error:
                await self._failed(source, error)

    async def _failed(self, source: _Source, error: ClusterError) -> None:
        """A kind that the server does not know (its CRD is missing) counts as listed, without objects."""
        if error.status == 404:
            source.known, source.absent = {}, True
            source.listed.set()
            self._touch()
        else:
            self.freshness.failed(source.kind.plural, str(error))
        if self._repeats.is_news(source.kind.plural, str(error)):
            _log.warning("inventory.unreadable", kind=source.kind.plural, problem=str(error))
        await self._clock.sleep(_RETRY_S)

    async def _list(self, source: _Source) -> list[dict[str, Any]]:
        objects = await self._cluster.list(source.kind, namespace=source.namespace)
        source.known = {_key(obj): trimmed for obj in objects if (trimmed := self._trim(source, obj)) is not None}
        source.absent = False
        self.freshness.read(source.kind.plural)
        if self._repeats.ended(source.kind.plural):
            _log.info("inventory.readable", kind=source.kind.plural)
        source.listed.set()
        self._touch()
        return objects

    async def _watch(self, source: _Source, listed: Iterable[Mapping[str, Any]]) -> None:
        """The watch lists again when it begins, and reports the objects of `known` that vanished between the two
        lists.
        """
        async for event in self._cluster.watch(source.kind, namespace=source.namespace, known=listed):
            trimmed = None if event.type == "DELETED" else self._trim(source, event.object)
            key = _key(event.object)
            if source.known.get(key) != trimmed:
                source.known.pop(key, None)
                if trimmed is not None:
                    source.known[key] = trimmed
                self._touch()

    def _trim(self, source: _Source, obj: Mapping[str, Any]) -> object | None:
        try:
            return source.trim(obj)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            _log.warning("inventory.malformed", kind=source.kind.plural, name=_key(obj)[1], problem=repr(error))
            return None

    def _touch(self) -> None:
        self._newest = None
        self._changed.set()

    async def _announce(self) -> None:
        while True:
            await self._changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self._changed.clear()
            self._bus.publish(INVENTORY_CHANGED, None)

    def _compose(self) -> Inventory:
        taken = _taken(_all(self._addresses, AddressClaim), self._settings)
        count, pooled = self._leasable(taken)
        return Inventory(
            nodes=tuple(sorted(_all(self._nodes, Node), key=lambda node: node.name)),
            pods=tuple(_all(self._pods, ScheduledPod)),
            claims=(*_all(self._volumes, VolumeClaim), *_all(self._kept, VolumeClaim)),
            pool_bytes=dict(self._settings.storage_classes),
            address_count=count,
            addresses=taken,
            pooled=pooled,
            node_port_count=_width(self._settings.node_port_range),
            node_ports=_by_namespace(self._services.known),
        )

    def _leasable(self, claimed: Iterable[str]) -> tuple[int, dict[str, int]]:
        """How many addresses can be leased at all, and what other pools hold of them; none without MetalLB."""
        ranges = self._settings.ip_ranges
        if self._address_pools.absent:
            return 0, {}
        held = pooled_addresses(_all(self._address_pools, AddressPool), ranges=ranges, claimed=claimed)
        pooled = {pool.name: count for pool, count in sorted(held.items(), key=lambda item: item[0].name)}
        own = {pool.name for pool in held if pool.of_lease}
        count = sum(one.size for one in ranges) - sum(pooled.values())
        return count, {name: held for name, held in pooled.items() if name not in own}


def _all(source: _Source, kind: type[_T]) -> Iterable[_T]:
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


def _key(obj: Mapping[str, Any]) -> tuple[str, str]:
    meta = obj.get("metadata") or {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))


def _taken(claims: Iterable[AddressClaim], settings: Settings) -> dict[str, frozenset[str]]:
    """Addresses of the configured ranges that are claimed → the namespaces of their leases."""
    taken: dict[str, frozenset[str]] = {}
    for claim in claims:
        if claim.address and any(ipaddress.ip_address(claim.address) in one for one in settings.ip_ranges):
            taken[claim.address] = taken.get(claim.address, frozenset()) | {namespace_name(claim.lease)}
    return taken
