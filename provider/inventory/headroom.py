"""The free capacity of an inventory, with one reservation after the other deducted.

A reservation counts only for replicas without a scheduled pod, for volume claims that do not exist yet and for
addresses that are not assigned yet. What exists is counted in the inventory. So a pod counts once, before and after it
is scheduled, and nothing has to remember which of the two it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lease.ids import namespace_name
from provider.inventory.capacity import Capacity, Card
from provider.inventory.reservation import Replica, Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot, take_cards

__all__ = ["Headroom"]


class Headroom:
    """Starts with `inventory` less its pods, claims, addresses and node ports. `charge` deducts a reservation."""

    def __init__(self, inventory: Inventory, provider: str) -> None:
        self._inventory = inventory
        self._provider = provider
        self._nodes = {node.name: node for node in inventory.nodes}
        self._pods: dict[str, list[ScheduledPod]] = {}
        for pod in inventory.pods:
            self._pods.setdefault(pod.namespace, []).append(pod)
            if pod.node in self._nodes:
                self._nodes[pod.node] = _without_pod(self._nodes[pod.node], pod)
        self._pools = dict(inventory.pool_bytes)
        self._claimed: dict[tuple[str, str], int] = {}
        for claim in inventory.claims:
            name = claim.storage_class if claim.storage_class in self._pools else "default"
            self._claimed[claim.namespace, name] = self._claimed.get((claim.namespace, name), 0) + claim.size_bytes
            self._pools[name] = max(0, self._pools.get(name, 0) - claim.size_bytes)
        self._addresses = inventory.address_count - len(inventory.addresses)
        self._node_ports = inventory.node_port_count - sum(inventory.node_ports.values())
        self._snapshot: Snapshot | None = None

    def charge(self, reservation: Reservation) -> None:
        self._snapshot = None
        namespace = namespace_name(reservation.order.bid_by(self._provider))
        _charge_replicas(self._nodes, reservation.replicas, self._pods.get(namespace, ()))
        _charge_volumes(self._pools, reservation.volumes, self._claimed, namespace)
        held = sum(namespace in users for users in self._inventory.addresses.values())
        self._addresses -= max(0, reservation.leased_ips - held)
        self._node_ports -= max(0, reservation.node_ports - self._inventory.node_ports.get(namespace, 0))

    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            pools = {name: size for name, size in self._pools.items() if name in self._inventory.pool_bytes}
            free = (max(0, self._addresses), max(0, self._node_ports))
            self._snapshot = Snapshot(tuple(self._nodes.values()), pools, *free, pooled=self._inventory.pooled)
        return self._snapshot


def _without_pod(node: Node, pod: ScheduledPod) -> Node:
    cards = take_cards(node.cards, vendor=pod.gpu_vendor, model=pod.gpu_model, units=pod.gpu_units)
    return replace(node, capacity=node.capacity.minus(pod.requests), cards=cards)


def _charge_replicas(nodes: dict[str, Node], replicas: Sequence[Replica], pods: Sequence[ScheduledPod]) -> None:
    """A replica without a pod counts in full; one with a pod of form 1 counts its RAM volumes, which that pod's request
    does not state.
    """
    left = list(replicas)
    for pod in pods:
        found = _replica_of(pod, left)
        if found is not None:
            left.remove(found)
            if pod.node in nodes:
                unstated = max(0, found.requests.memory_bytes - pod.requests.memory_bytes)
                ram = Capacity(memory_bytes=min(found.ram_bytes, unstated))
                nodes[pod.node] = replace(nodes[pod.node], capacity=nodes[pod.node].capacity.minus(ram))
    for replica in left:
        _charge(nodes, replica)


def _replica_of(pod: ScheduledPod, replicas: Sequence[Replica]) -> Replica | None:
    """The replica that this pod is: one of its size with its cards, else of its size, else one that is larger; among
    these one on its node if possible.
    """
    equal = [one for one in replicas if _states(pod.requests, one) and len(one.cards) in (0, pod.gpu_units)]
    card = Card(pod.gpu_vendor, pod.gpu_model)
    alike = [one for one in equal if one.cards and all(_of_model(each, card) for each in one.cards)]
    covering = alike or equal or [one for one in replicas if one.requests.holds(pod.requests)]
    return next((one for one in covering if one.node == pod.node), covering[0] if covering else None)


def _states(stated: Capacity, replica: Replica) -> bool:
    """Whether a pod of this replica states these requests. One of form 1 states no RAM volumes, and no disk where none
    is rented.
    """
    wanted = replica.requests
    return (
        (stated.cpu_milli, stated.pods) == (wanted.cpu_milli, wanted.pods)
        and stated.memory_bytes in (wanted.memory_bytes, wanted.memory_bytes - replica.ram_bytes)
        and stated.ephemeral_bytes in (wanted.ephemeral_bytes, 0)
    )


def _of_model(card: Card, pinned: Card) -> bool:
    return (card.vendor, card.model) == (pinned.vendor, pinned.model)


def _charge(nodes: dict[str, Node], replica: Replica) -> None:
    """Deducted from its node if the replica fits there, else from the first node where it fits, else from its node down
    to zero.
    """
    planned = nodes.get(replica.node)
    candidates = [planned, *nodes.values()] if planned else list(nodes.values())
    target = next((node for node in candidates if node and _fits(node, replica)), planned)
    if target is None:
        return
    cards = _without_cards(target.cards, replica.cards)
    nodes[target.name] = replace(target, capacity=target.capacity.minus(replica.requests), cards=cards)


def _without_cards(have: tuple[Card, ...], reserved: tuple[Card, ...]) -> tuple[Card, ...]:
    """`have` without the reserved cards: the same cards first, then others of their model, then of their vendor."""
    left, missing = list(have), []
    for card in reserved:
        if card in left:
            left.remove(card)
        else:
            missing.append(card)
    found = tuple(left)
    for card in missing:
        found = take_cards(found, vendor=card.vendor, model=card.model, units=1)
    return found


def _fits(node: Node, replica: Replica) -> bool:
    """Cards count by model: a running pod names no more, so its own card of several kinds of one model is unknown."""
    have = Counter((card.vendor, card.model) for card in node.cards)
    wanted = Counter((card.vendor, card.model) for card in replica.cards)
    return wanted <= have and node.capacity.holds(replica.requests)


def _charge_volumes(
    pools: dict[str, int], volumes: Mapping[str, int], claimed: Mapping[tuple[str, str], int], namespace: str
) -> None:
    for storage_class, size in volumes.items():
        missing = max(0, size - claimed.get((namespace, storage_class), 0))
        pools[storage_class] = max(0, pools.get(storage_class, 0) - missing)
