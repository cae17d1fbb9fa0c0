"""The data of `GET /status`: counts, reservations and free resources (gateway.md §4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lease.ids import LeaseId
from lease.resources import Volume
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.inventory.ledger import Ledger
from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory, Node
from provider.lifecycle.state import LeaseStatus, Phase

__all__ = ["provider_status"]

_EPHEMERAL = "ephemeral"


def provider_status(
    ledger: Ledger, inventory: Inventory, statuses: Mapping[LeaseId, LeaseStatus], *, open_orders: int, braked: int = 0
) -> ProviderStatus:
    """The provider's status. A reservation is pending until its lease runs, then active. A quarantined lease does not
    count.
    """
    leases = [lease for lease, status in statuses.items() if status.phase is not Phase.QUARANTINED]
    running = {lease.order for lease, status in statuses.items() if status.phase is Phase.RUNNING}
    reservations = [found for order in ledger.orders() if (found := ledger.reservation(order)) is not None]
    free = ledger.free(inventory)
    free_nodes = {node.name: node for node in free.nodes}
    return ProviderStatus(
        leases=len(leases),
        orders=open_orders,
        deployments=len({lease.deployment for lease in leases}),
        active=_totals(found for found in reservations if found.order in running),
        pending=_totals(found for found in reservations if found.order not in running),
        nodes=tuple(
            NodeAmounts(
                node.name,
                allocatable=_amounts(node),
                available=_amounts(free_nodes[node.name]),
                cards=node.cards,
                storage_classes=node.storage_classes,
            )
            for node in inventory.nodes
        ),
        storage_bytes=free.pools,
        braked=braked,
        pool_bytes=inventory.pool_bytes,
        addresses=inventory.address_count,
        free_addresses=free.free_addresses,
    )


def _totals(reservations: Iterable[Reservation]) -> tuple[Amounts, ...]:
    return tuple(_total(reservation) for reservation in reservations)


def _total(reservation: Reservation) -> Amounts:
    """The sums of the offered units times their counts."""
    storage: dict[str, int] = {}
    units = reservation.offer
    for unit in units:
        for volume in unit.resources.storage or ():
            name = _storage_name(volume)
            storage[name] = storage.get(name, 0) + volume.size_bytes * unit.count
    return Amounts(
        cpu_milli=sum(unit.resources.cpu_milli * unit.count for unit in units),
        gpu_units=sum(unit.resources.gpu_units * unit.count for unit in units),
        memory_bytes=sum(unit.resources.memory_bytes * unit.count for unit in units),
        ephemeral_bytes=storage.pop(_EPHEMERAL, 0),
        storage_bytes=storage,
    )


def _storage_name(volume: Volume) -> str:
    return volume.storage_class or _EPHEMERAL


def _amounts(node: Node) -> Amounts:
    free = node.capacity
    return Amounts(free.cpu_milli, len(node.cards), free.memory_bytes, free.ephemeral_bytes)
