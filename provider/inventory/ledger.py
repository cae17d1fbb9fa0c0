"""The ledger of promises: free = allocatable − scheduled − promised, never negative, nothing counted twice.

What is promised counts as `provider.inventory.headroom` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lease.groups import GroupSpec
from lease.ids import OrderId, namespace_name
from provider.inventory.capacity import Overcommit
from provider.inventory.headroom import Free
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips, needs_of, volumes_of
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.snapshot import Inventory, Snapshot

__all__ = ["Ledger", "free_snapshot"]


class Ledger:
    """Promises by order, in memory; after a restart they are rebuilt from own open bids and leases."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._promises: dict[OrderId, Reservation] = {}
        self._free: tuple[Inventory, Free] | None = None

    def promise(self, reservation: Reservation) -> None:
        """Hold it; a second promise for the same order replaces the first."""
        if reservation.order in self._promises:
            self._free = None
        elif self._free is not None:
            self._free[1].charge(reservation)
        self._promises[reservation.order] = reservation

    def release(self, order: OrderId) -> bool:
        """Let it go at once; False when there was none."""
        self._free = None if order in self._promises else self._free
        return self._promises.pop(order, None) is not None

    def reservation(self, order: OrderId) -> Reservation | None:
        return self._promises.get(order)

    def orders(self) -> tuple[OrderId, ...]:
        return tuple(self._promises)

    def free(self, inventory: Inventory) -> Snapshot:
        """The very same object as before while nothing changed. A promise more costs its own nodes, not all."""
        if self._free is None or self._free[0] is not inventory:
            self._free = (inventory, _charged(inventory, self._promises.values(), provider=self._provider))
        return self._free[1].snapshot()

    def rebuild(self, order: OrderId, spec: GroupSpec, *, inventory: Inventory, overcommit: Overcommit) -> Reservation:
        """The promise of an order that we already bid on or serve; always made, room or not, and held.

        Its own running pods are first given back, so that it finds its place again, on the cards its pods are pinned
        to.
        """
        namespace = namespace_name(order.bid_by(self._provider))
        mine = [pod for pod in inventory.pods if pod.namespace == namespace]
        others = [promise for promise in self._promises.values() if promise.order != order]
        without = replace(
            inventory,
            pods=tuple(pod for pod in inventory.pods if pod.namespace != namespace),
            claims=tuple(claim for claim in inventory.claims if claim.namespace != namespace),
        )
        prefer = [(pod.gpu_vendor, pod.gpu_model) for pod in mine if pod.gpu_model]
        snapshot = free_snapshot(without, others, provider=self._provider)
        found = place(order, spec, snapshot=snapshot, overcommit=overcommit, prefer=prefer)
        reservation = _without_room(order, spec, overcommit) if isinstance(found, Shortage) else found
        self.promise(reservation)
        return reservation


def _without_room(order: OrderId, spec: GroupSpec, overcommit: Overcommit) -> Reservation:
    """Everything promised, nothing placed: what is missing is charged wherever there is room."""
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
    )


def free_snapshot(inventory: Inventory, promises: Iterable[Reservation], *, provider: str) -> Snapshot:
    """What is left of `inventory` after its pods, claims and addresses, and after what is promised and not there
    yet.
    """
    return _charged(inventory, promises, provider=provider).snapshot()


def _charged(inventory: Inventory, promises: Iterable[Reservation], *, provider: str) -> Free:
    free = Free(inventory, provider)
    for promise in promises:
        free.charge(promise)
    return free
