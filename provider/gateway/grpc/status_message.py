"""The status of the provider as a message (gateway.md §4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from akash.inventory.v1 import types_pb2 as inventory_pb
from akash.provider.v1 import types_pb2 as status_pb
from google.protobuf.timestamp_pb2 import Timestamp
from k8s.io.apimachinery.pkg.api.resource.generated_pb2 import Quantity

from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus

__all__ = ["quantity", "status_message"]

_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
_NS = 10**9


def status_message(status: ProviderStatus, *, public_hostname: str, reclamation_window_ns: int, now: float) -> Any:
    """The message with one public hostname, which may be empty, and the time `now` (Unix seconds)."""
    message = status_pb.Status(
        cluster=_cluster(status),
        bid_engine=status_pb.BidEngineStatus(orders=status.orders),
        manifest=status_pb.ManifestStatus(deployments=status.deployments),
        public_hostnames=[public_hostname],
        timestamp=Timestamp(seconds=int(now), nanos=int(now % 1 * _NS)),
    )
    if reclamation_window_ns:
        message.reclamation_window.FromNanoseconds(reclamation_window_ns)
    return message


def quantity(amount: int, *, milli: bool = False) -> Any:
    """A Kubernetes quantity in its canonical decimal form: 1000 is `1k`; in `milli` units 1100 is `1100m`."""
    if milli and amount % 1000:
        return Quantity(string=f"{amount}m")
    value, power = amount // 1000 if milli else amount, 0
    while value and value % 1000 == 0 and power < len(_SUFFIXES) - 1:
        value, power = value // 1000, power + 1
    return Quantity(string=f"{value}{_SUFFIXES[power]}")


def _cluster(status: ProviderStatus) -> Any:
    inventory = status_pb.Inventory(
        cluster=inventory_pb.Cluster(
            nodes=[_node(node) for node in status.nodes],
            storage=[_storage(name, size, status.storage_bytes) for name, size in sorted(status.pool_bytes.items())],
        ),
        reservations=status_pb.Reservations(pending=_reserved(status.pending), active=_reserved(status.active)),
        leased_ip=_pair(status.addresses, status.addresses - status.free_addresses),
    )
    return status_pb.ClusterStatus(leases=status_pb.Leases(active=status.leases), inventory=inventory)


def _node(node: NodeAmounts) -> Any:
    most, free = node.allocatable, node.available
    resources = inventory_pb.NodeResources(
        cpu=inventory_pb.CPU(quantity=_pair(most.cpu_milli, most.cpu_milli - free.cpu_milli, milli=True)),
        memory=inventory_pb.Memory(quantity=_pair(most.memory_bytes, most.memory_bytes - free.memory_bytes)),
        gpu=inventory_pb.GPU(
            quantity=_pair(most.gpu_units, most.gpu_units - free.gpu_units),
            info=[
                inventory_pb.GPUInfo(
                    vendor=card.vendor, name=card.model, interface=card.interface, memory_size=card.memory_size
                )
                for card in node.cards
            ],
        ),
        ephemeral_storage=_pair(most.ephemeral_bytes, most.ephemeral_bytes - free.ephemeral_bytes),
        volumes_attached=_pair(0, 0),
        volumes_mounted=_pair(0, 0),
    )
    capabilities = inventory_pb.NodeCapabilities(storage_classes=node.storage_classes)
    return inventory_pb.Node(name=node.name, resources=resources, capabilities=capabilities)


def _storage(name: str, size: int, free: Mapping[str, int]) -> Any:
    pair = _pair(size, size - free.get(name, 0))
    return inventory_pb.Storage(quantity=pair, info=inventory_pb.StorageInfo(**{"class": name}))


def _pair(most: int, used: int, *, milli: bool = False) -> Any:
    """Allocatable and capacity are the same here: what a node keeps for itself is nobody's."""
    amount = quantity(most, milli=milli)
    return inventory_pb.ResourcePair(allocatable=amount, allocated=quantity(max(0, used), milli=milli), capacity=amount)


def _reserved(reservations: Iterable[Amounts]) -> Any:
    rows = tuple(reservations)
    classes = sorted({name for row in rows for name in row.storage_bytes})
    resources = status_pb.ResourcesMetric(
        cpu=quantity(sum(row.cpu_milli for row in rows), milli=True),
        memory=quantity(sum(row.memory_bytes for row in rows)),
        gpu=quantity(sum(row.gpu_units for row in rows)),
        ephemeral_storage=quantity(sum(row.ephemeral_bytes for row in rows)),
        storage={name: quantity(sum(row.storage_bytes.get(name, 0) for row in rows)) for name in classes},
    )
    return status_pb.ReservationsMetric(count=len(rows), resources=resources)
