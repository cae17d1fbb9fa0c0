"""The ledger of reservations: free = allocatable − scheduled − reserved, never negative, nothing counted twice.

`provider.inventory.headroom` says how a reservation counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.inventory.capacity import Overcommit
from provider.inventory.headroom import Headroom
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips, needs_of, node_ports, volumes_of
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.snapshot import Inventory, Snapshot

__all__ = ["Ledger", "free_snapshot"]


class Ledger:
    """Reservations by order, in memory. After a restart they are rebuilt from the own open bids and leases."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._reservations: dict[OrderId, Reservation] = {}
        self._free: tuple[Inventory, Headroom] | None = None

    def reserve(self, reservation: Reservation) -> None:
        """Keep the reservation; it replaces another one of the same order."""
        if reservation.order in self._reservations:
            self._free = None
        elif self._free is not None:
            self._free[1].charge(reservation)
        self._reservations[reservation.order] = reservation

    def release(self, order: OrderId) -> bool:
        """Remove the reservation of an order; False when there was none."""
        self._free = None if order in self._reservations else self._free
        return self._reservations.pop(order, None) is not None

    def reservation(self, order: OrderId) -> Reservation | None:
        return self._reservations.get(order)

    def orders(self) -> tuple[OrderId, ...]:
        return tuple(self._reservations)

    def free(self, inventory: Inventory) -> Snapshot:
        """The free capacity; the same object until something changes. A new reservation costs work for its own nodes
        only.
        """
        return self._headroom(inventory).snapshot()

    def rebuild(self, order: OrderId, spec: GroupSpec, *, inventory: Inventory, overcommit: Overcommit) -> Reservation:
        """Make and keep the reservation of an order that has a bid or a lease, whether or not the capacity is free.

        The order's own running pods are not counted, so that it is placed where it runs, on the cards of its pods. The
        work does not grow with the number of other reservations.
        """
        headroom = self._headroom(inventory)
        prefer = [(pod.gpu_vendor, pod.gpu_model) for pod in headroom.pods(order) if pod.gpu_model]
        found = place(order, spec, snapshot=headroom.without(order), overcommit=overcommit, prefer=prefer)
        reservation = _unplaced(order, spec, overcommit) if isinstance(found, Shortage) else found
        self.reserve(reservation)
        return reservation

    def _headroom(self, inventory: Inventory) -> Headroom:
        if self._free is None or self._free[0] is not inventory:
            self._free = (inventory, _charged(inventory, self._reservations.values(), provider=self._provider))
        return self._free[1]


def _unplaced(order: OrderId, spec: GroupSpec, overcommit: Overcommit) -> Reservation:
    """A reservation without nodes. It is deducted from whichever nodes have the capacity."""
    needs = needs_of(spec, overcommit)
    return Reservation(
        order=order,
        group_spec=spec,
        placements={need.unit.resources.id: None for need in needs},
        replicas=tuple(
            Replica(need.unit.resources.id, "", need.requests, ram_bytes=need.ram_bytes)
            for need in needs
            for _ in range(need.count)
        ),
        offer=tuple(need.offer(None) for need in needs),
        volumes=volumes_of(needs),
        leased_ips=leased_ips(spec),
        node_ports=node_ports(spec),
    )


def free_snapshot(inventory: Inventory, reservations: Iterable[Reservation], *, provider: str) -> Snapshot:
    """The capacity of `inventory` less its pods, claims and addresses, and less the reservations that have none yet."""
    return _charged(inventory, reservations, provider=provider).snapshot()


def _charged(inventory: Inventory, reservations: Iterable[Reservation], *, provider: str) -> Headroom:
    free = Headroom(inventory, provider)
    for one in reservations:
        free.charge(one)
    return free
