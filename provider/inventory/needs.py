"""What one replica of a unit needs from a node and from the storage pools (bidding.md §4.2, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lease.build import UNRENTED_EPHEMERAL_BYTES
from lease.gpus import GpuRequest, gpu_key, parse_gpu_requests
from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Attribute, EndpointKind, Resources, Volume
from lease.spec import GpuPlacement
from provider.inventory.capacity import Capacity, Card, Overcommit

__all__ = ["Need", "leased_ips", "needs_of", "node_ports", "offered_as", "volumes_of"]

GpuRequests = Mapping[tuple[str, str], GpuRequest]
"""(vendor, model) → request; the last of two for one model wins (bidding.md §4.5)."""


@dataclass(frozen=True, slots=True)
class Need:
    """The need of one replica. `requests`: as its pod will state them, `ram_bytes` for its RAM volumes among them.
    `volumes`: storage class → bytes, and `classes` the same classes.

    `committed`: the resources after overcommit. `impossible`: why no cluster can serve the unit, empty when one may.
    """

    unit: ResourceUnit
    requests: Capacity
    ram_bytes: int
    volumes: Mapping[str, int]
    gpus: GpuRequests
    committed: Resources
    impossible: str = ""
    classes: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        return self.unit.count

    @property
    def gpu_units(self) -> int:
        return self.unit.resources.gpu_units

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """The order of placement: GPUs are the scarcest, then storage classes, then CPU and memory."""
        return (self.gpu_units, len(self.classes), self.requests.cpu_milli, self.requests.memory_bytes)

    def offer(self, chosen: GpuPlacement | None) -> ResourceUnit:
        """The unit as a bid states it: committed amounts, and the chosen card instead of the patterns."""
        if chosen is None:
            return replace(self.unit, resources=self.committed)
        request = GpuRequest(chosen.vendor, chosen.model, chosen.memory_size, chosen.interface)
        attributes = (Attribute(gpu_key(request), "true"),)
        return replace(self.unit, resources=replace(self.committed, gpu_attributes=attributes))


def needs_of(spec: GroupSpec, overcommit: Overcommit) -> tuple[Need, ...]:
    return tuple(_need(unit, overcommit) for unit in spec.units)


def _need(unit: ResourceUnit, overcommit: Overcommit) -> Need:
    resources = unit.resources
    volumes: dict[str, int] = {}
    ram = ephemeral = 0
    for volume in resources.storage or ():
        if volume.persistent:
            name = volume.storage_class or ""
            volumes[name] = volumes.get(name, 0) + volume.size_bytes
        elif volume.storage_class == "ram":
            ram += overcommit.storage_bytes(volume.size_bytes)
        else:
            ephemeral += overcommit.storage_bytes(volume.size_bytes)
    requests = Capacity(
        cpu_milli=overcommit.cpu_milli(resources.cpu_milli),
        memory_bytes=overcommit.memory_bytes(resources.memory_bytes) + ram,
        ephemeral_bytes=ephemeral or overcommit.storage_bytes(UNRENTED_EPHEMERAL_BYTES),
        pods=1,
    )
    gpus = parse_gpu_requests(resources.gpu_attributes)
    return Need(
        unit=unit,
        requests=requests,
        ram_bytes=ram,
        volumes=volumes,
        gpus={(item.vendor, item.model): item for item in gpus or ()},
        committed=_committed(resources, overcommit),
        impossible=_impossible(resources, volumes, readable=gpus is not None),
        classes=frozenset(volumes),
    )


def _impossible(resources: Resources, volumes: Mapping[str, int], *, readable: bool) -> str:
    for name in volumes:
        if name in ("", "ram"):
            return f"unit {resources.id}: a persistent volume cannot have the class {name!r}"
    if resources.gpu_units and not resources.gpu_attributes:
        return f"unit {resources.id}: {resources.gpu_units} GPUs without a model"
    if resources.gpu_units and not readable:
        keys = ", ".join(item.key for item in resources.gpu_attributes)
        return f"unit {resources.id}: the GPU attributes cannot be read: {keys[:200]}"
    return ""


def _committed(resources: Resources, overcommit: Overcommit) -> Resources:
    """The resources of the offer: every volume is reduced, also a persistent one (bidding.md §4.2)."""
    storage = resources.storage
    return replace(
        resources,
        cpu_milli=overcommit.cpu_milli(resources.cpu_milli),
        memory_bytes=overcommit.memory_bytes(resources.memory_bytes),
        storage=None if storage is None else tuple(_smaller(volume, overcommit) for volume in storage),
    )


def _smaller(volume: Volume, overcommit: Overcommit) -> Volume:
    return replace(volume, size_bytes=overcommit.storage_bytes(volume.size_bytes))


def offered_as(card: Card, requests: GpuRequests) -> GpuPlacement | None:
    """The placement on `card` for the request that it matches; None when it matches none (bidding.md §4.5).

    Memory size and interface are in the placement, and so pinned, only where the request names them.
    """
    request = requests.get((card.vendor, card.model)) or requests.get((card.vendor, "*"))
    if request is None:
        return None
    if request.memory_size and request.memory_size != card.memory_size:
        return None
    if request.interface and request.interface != _interface(card.interface):
        return None
    return GpuPlacement(
        vendor=card.vendor, model=card.model, memory_size=request.memory_size, interface=request.interface
    )


def _interface(text: str) -> str:
    return "sxm" if text.lower().startswith("sxm") else text.lower()


def leased_ips(spec: GroupSpec) -> int:
    """Distinct sequence numbers of leased-IP endpoints over the whole group, not times count (bidding.md §4.3)."""
    endpoints = (endpoint for unit in spec.units for endpoint in unit.resources.endpoints or ())
    return len({endpoint.sequence_number for endpoint in endpoints if endpoint.kind is EndpointKind.LEASED_IP})


def node_ports(spec: GroupSpec) -> int:
    """Endpoints on random ports over the whole group; a unit's replicas share them (bidding.md §4.3)."""
    endpoints = (endpoint for unit in spec.units for endpoint in unit.resources.endpoints or ())
    return sum(endpoint.kind is EndpointKind.RANDOM_PORT for endpoint in endpoints)


def volumes_of(needs: Sequence[Need]) -> dict[str, int]:
    """Storage class → bytes of all replicas."""
    volumes: dict[str, int] = {}
    for need in needs:
        for storage_class, size in need.volumes.items():
            volumes[storage_class] = volumes.get(storage_class, 0) + size * need.count
    return volumes
