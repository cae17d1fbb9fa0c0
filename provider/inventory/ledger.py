"""The ledger of promises: free = allocatable − scheduled − promised, never negative, nothing counted twice.

A promise counts only for replicas that have no scheduled pod yet, for claims not made yet and for addresses not
assigned yet; what exists is counted by the cluster. So a pod that is scheduled moves from the one to the other
without ever being in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lease.groups import GroupSpec
from lease.ids import OrderId, namespace_name
from provider.inventory.capacity import Capacity, Overcommit
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips, needs_of
from provider.inventory.reservation import Replica, Reservation, Shortage
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot, take_cards

__all__ = ["Ledger", "free_snapshot"]


class Ledger:
    """Promises by order, in memory; after a restart they are rebuilt from own open bids and leases."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._promises: dict[OrderId, Reservation] = {}

    def promise(self, reservation: Reservation) -> None:
        """Hold it; a second promise for the same order replaces the first."""
        self._promises[reservation.order] = reservation

    def release(self, order: OrderId) -> bool:
        """Let it go at once; False when there was none."""
        return self._promises.pop(order, None) is not None

    def reservation(self, order: OrderId) -> Reservation | None:
        return self._promises.get(order)

    def orders(self) -> tuple[OrderId, ...]:
        return tuple(self._promises)

    def free(self, inventory: Inventory) -> Snapshot:
        return free_snapshot(inventory, self._promises.values(), provider=self._provider)

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
    volumes: dict[str, int] = {}
    for need in needs:
        for storage_class, size in need.volumes.items():
            volumes[storage_class] = volumes.get(storage_class, 0) + size * need.count
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
        volumes=volumes,
        leased_ips=leased_ips(spec),
    )


def free_snapshot(inventory: Inventory, promises: Iterable[Reservation], *, provider: str) -> Snapshot:
    """What is left of `inventory` after its pods, claims and addresses, and after what is promised and not there
    yet.
    """
    rooms = {node.name: node for node in inventory.nodes}
    pods: dict[str, list[ScheduledPod]] = {}
    for pod in inventory.pods:
        pods.setdefault(pod.namespace, []).append(pod)
        if pod.node in rooms:
            rooms[pod.node] = _without_pod(rooms[pod.node], pod)
    pools = dict(inventory.pool_bytes)
    claimed: dict[tuple[str, str], int] = {}
    for claim in inventory.claims:
        name = claim.storage_class if claim.storage_class in pools else "default"
        claimed[claim.namespace, name] = claimed.get((claim.namespace, name), 0) + claim.size_bytes
        pools[name] = max(0, pools.get(name, 0) - claim.size_bytes)
    addresses = inventory.address_count - len(inventory.addresses)
    for promise in promises:
        namespace = namespace_name(promise.order.bid_by(provider))
        _charge_replicas(rooms, promise.replicas, pods.get(namespace, ()))
        _charge_volumes(pools, promise.volumes, claimed, namespace)
        held = sum(namespace in users for users in inventory.addresses.values())
        addresses -= max(0, promise.leased_ips - held)
    pools = {name: size for name, size in pools.items() if name in inventory.pool_bytes}
    return Snapshot(tuple(rooms.values()), pools, max(0, addresses))


def _without_pod(node: Node, pod: ScheduledPod) -> Node:
    cards = take_cards(node.cards, vendor=pod.gpu_vendor, model=pod.gpu_model, units=pod.gpu_units)
    return replace(node, room=node.room.minus(pod.requests), cards=cards)


def _charge_replicas(rooms: dict[str, Node], replicas: Sequence[Replica], pods: Sequence[ScheduledPod]) -> None:
    """Replicas without a pod take room; of those with one only the RAM volumes, which no pod's request states."""
    left = list(replicas)
    for pod in pods:
        mine = _replica_of(pod, left)
        if mine is not None:
            left.remove(mine)
            if pod.node in rooms:
                ram = Capacity(memory_bytes=mine.ram_bytes)
                rooms[pod.node] = replace(rooms[pod.node], room=rooms[pod.node].room.minus(ram))
    for replica in left:
        _charge(rooms, replica)


def _replica_of(pod: ScheduledPod, replicas: Sequence[Replica]) -> Replica | None:
    """The promise this pod fulfils: one of its size, on its node if possible; else one that covers it."""
    equal = [one for one in replicas if one.requests == pod.requests and len(one.cards) in (0, pod.gpu_units)]
    covering = equal or [one for one in replicas if one.requests.holds(pod.requests)]
    return next((one for one in covering if one.node == pod.node), covering[0] if covering else None)


def _charge(rooms: dict[str, Node], replica: Replica) -> None:
    """On its node if that still has the room, else on the first that has; else what is left of its node is gone."""
    planned = rooms.get(replica.node)
    candidates = [planned, *rooms.values()] if planned else list(rooms.values())
    target = next((node for node in candidates if node and _fits(node, replica)), planned)
    if target is None:
        return
    cards = target.cards
    for card in replica.cards:
        cards = take_cards(cards, vendor=card.vendor, model=card.model, units=1)
    rooms[target.name] = replace(target, room=target.room.minus(replica.room), cards=cards)


def _fits(node: Node, replica: Replica) -> bool:
    left = list(node.cards)
    for card in replica.cards:
        if card not in left:
            return False
        left.remove(card)
    return node.room.holds(replica.room)


def _charge_volumes(
    pools: dict[str, int], volumes: Mapping[str, int], claimed: Mapping[tuple[str, str], int], namespace: str
) -> None:
    for storage_class, size in volumes.items():
        missing = max(0, size - claimed.get((namespace, storage_class), 0))
        pools[storage_class] = max(0, pools.get(storage_class, 0) - missing)
