"""What is free of a picture of the cluster, promise by promise.

A promise counts only for replicas that have no scheduled pod yet, for claims not made yet and for addresses not
assigned yet; what exists is counted by the cluster. So a pod that is scheduled moves from the one to the other without
ever being in both, and nothing has to remember which of the two it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lease.ids import namespace_name
from provider.inventory.capacity import Capacity, Card
from provider.inventory.reservation import Replica, Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot, take_cards

__all__ = ["Free"]


class Free:
    """Begins with what the pods, claims and addresses of `inventory` leave; each promise charged takes from that."""

    def __init__(self, inventory: Inventory, provider: str) -> None:
        self._inventory = inventory
        self._provider = provider
        self._rooms = {node.name: node for node in inventory.nodes}
        self._pods: dict[str, list[ScheduledPod]] = {}
        for pod in inventory.pods:
            self._pods.setdefault(pod.namespace, []).append(pod)
            if pod.node in self._rooms:
                self._rooms[pod.node] = _without_pod(self._rooms[pod.node], pod)
        self._pools = dict(inventory.pool_bytes)
        self._claimed: dict[tuple[str, str], int] = {}
        for claim in inventory.claims:
            name = claim.storage_class if claim.storage_class in self._pools else "default"
            self._claimed[claim.namespace, name] = self._claimed.get((claim.namespace, name), 0) + claim.size_bytes
            self._pools[name] = max(0, self._pools.get(name, 0) - claim.size_bytes)
        self._addresses = inventory.address_count - len(inventory.addresses)
        self._snapshot: Snapshot | None = None

    def charge(self, promise: Reservation) -> None:
        self._snapshot = None
        namespace = namespace_name(promise.order.bid_by(self._provider))
        _charge_replicas(self._rooms, promise.replicas, self._pods.get(namespace, ()))
        _charge_volumes(self._pools, promise.volumes, self._claimed, namespace)
        held = sum(namespace in users for users in self._inventory.addresses.values())
        self._addresses -= max(0, promise.leased_ips - held)

    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            pools = {name: size for name, size in self._pools.items() if name in self._inventory.pool_bytes}
            self._snapshot = Snapshot(tuple(self._rooms.values()), pools, max(0, self._addresses))
        return self._snapshot


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
    """The promise this pod fulfils: one of its size with its cards, else of its size, else one that covers it; among
    those one on its node if possible.
    """
    equal = [one for one in replicas if one.requests == pod.requests and len(one.cards) in (0, pod.gpu_units)]
    card = Card(pod.gpu_vendor, pod.gpu_model)
    alike = [one for one in equal if one.cards and all(_of_model(mine, card) for mine in one.cards)]
    covering = alike or equal or [one for one in replicas if one.requests.holds(pod.requests)]
    return next((one for one in covering if one.node == pod.node), covering[0] if covering else None)


def _of_model(mine: Card, pinned: Card) -> bool:
    return (mine.vendor, mine.model) == (pinned.vendor, pinned.model)


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
