"""The free capacity of an inventory, with one reservation after the other deducted.

A reservation counts only for replicas without a scheduled pod, for volume claims that do not exist yet and for
addresses that are not assigned yet. What exists is counted in the inventory. So a pod counts once, before and after it
is scheduled, and nothing has to remember which of the two it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from lease.ids import OrderId, namespace_name
from provider.inventory.capacity import Capacity, Card
from provider.inventory.reservation import Replica, Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot, take_cards

__all__ = ["Headroom"]


_Taking: TypeAlias = Callable[[Node], Node]


class Headroom:
    """Starts with `inventory` less its pods, claims, addresses and node ports. `charge` deducts a reservation.

    What each namespace takes of a node or a pool is kept apart, so that one namespace can be left out without counting
    all others again.
    """

    def __init__(self, inventory: Inventory, provider: str) -> None:
        self._inventory = inventory
        self._provider = provider
        self._whole = {node.name: node for node in inventory.nodes}
        self._nodes = dict(self._whole)
        self._taken: dict[str, list[tuple[str, _Taking]]] = {}
        self._places: dict[str, set[str]] = {}
        self._pods: dict[str, list[ScheduledPod]] = {}
        for pod in inventory.pods:
            self._pods.setdefault(pod.namespace, []).append(pod)
            self._take(pod.node, pod.namespace, partial(_without_pod, pod=pod))
        self._pools: dict[str, Counter[str]] = {name: Counter() for name in inventory.pool_bytes}
        self._claimed: Counter[tuple[str, str]] = Counter()
        for claim in inventory.claims:
            name = claim.storage_class if claim.storage_class in self._pools else "default"
            self._claimed[claim.namespace, name] += claim.size_bytes
            self._pools.setdefault(name, Counter())[claim.namespace] += claim.size_bytes
        self._addresses: Counter[str] = Counter()
        self._node_ports: Counter[str] = Counter()
        self._snapshot: Snapshot | None = None

    def charge(self, reservation: Reservation) -> None:
        self._snapshot = None
        namespace = namespace_name(reservation.order.bid_by(self._provider))
        self._charge_replicas(namespace, reservation.replicas)
        for storage_class, size in reservation.volumes.items():
            missing = max(0, size - self._claimed[namespace, storage_class])
            self._pools.setdefault(storage_class, Counter())[namespace] += missing
        held = sum(namespace in users for users in self._inventory.addresses.values())
        self._addresses[namespace] += max(0, reservation.leased_ips - held)
        ports = self._inventory.node_ports.get(namespace, 0)
        self._node_ports[namespace] += max(0, reservation.node_ports - ports)

    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            self._snapshot = self._made(self._nodes, without="")
        return self._snapshot

    def without(self, order: OrderId) -> Snapshot:
        """The free capacity if the order had no pods, no claims and no reservation."""
        namespace, nodes = namespace_name(order.bid_by(self._provider)), dict(self._nodes)
        for name in self._places.get(namespace, ()):
            nodes[name] = self._whole[name]
            for one, take in self._taken[name]:
                nodes[name] = nodes[name] if one == namespace else take(nodes[name])
        return self._made(nodes, without=namespace)

    def pods(self, order: OrderId) -> Sequence[ScheduledPod]:
        return self._pods.get(namespace_name(order.bid_by(self._provider)), ())

    def _made(self, nodes: dict[str, Node], *, without: str) -> Snapshot:
        inventory = self._inventory
        taken = {name: used.total() - used[without] for name, used in self._pools.items()}
        pools = {name: max(0, size - taken[name]) for name, size in inventory.pool_bytes.items()}
        addresses = inventory.address_count - len(inventory.addresses) - _others(self._addresses, without)
        ports = inventory.node_port_count - sum(inventory.node_ports.values()) - _others(self._node_ports, without)
        return Snapshot(tuple(nodes.values()), pools, max(0, addresses), max(0, ports), pooled=inventory.pooled)

    def _take(self, node: str, namespace: str, take: _Taking) -> None:
        if node in self._nodes:
            self._nodes[node] = take(self._nodes[node])
            self._taken.setdefault(node, []).append((namespace, take))
            self._places.setdefault(namespace, set()).add(node)

    def _charge_replicas(self, namespace: str, replicas: Sequence[Replica]) -> None:
        """A replica without a pod counts in full; one with a pod of form 1 counts its RAM volumes, which that pod's
        request does not state.
        """
        left = list(replicas)
        for pod in self._pods.get(namespace, ()):
            found = _replica_of(pod, left)
            if found is not None:
                left.remove(found)
                unstated = max(0, found.requests.memory_bytes - pod.requests.memory_bytes)
                if ram := min(found.ram_bytes, unstated):
                    self._take(pod.node, namespace, partial(_without, requests=Capacity(memory_bytes=ram)))
        for replica in left:
            if target := self._target(replica):
                take = partial(_without, requests=replica.requests, cards=replica.cards)
                self._take(target.name, namespace, take)

    def _target(self, replica: Replica) -> Node | None:
        """The replica's node if it fits there, else the first node where it fits, else its node, which goes down to
        zero.
        """
        planned = self._nodes.get(replica.node)
        candidates = [planned, *self._nodes.values()] if planned else list(self._nodes.values())
        return next((node for node in candidates if node and _fits(node, replica)), planned)


def _others(used: Counter[str], without: str) -> int:
    return used.total() - used[without]


def _without_pod(node: Node, pod: ScheduledPod) -> Node:
    cards = take_cards(node.cards, vendor=pod.gpu_vendor, model=pod.gpu_model, units=pod.gpu_units)
    return replace(node, capacity=node.capacity.minus(pod.requests), cards=cards)


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


def _without(node: Node, *, requests: Capacity, cards: tuple[Card, ...] = ()) -> Node:
    return replace(node, capacity=node.capacity.minus(requests), cards=_without_cards(node.cards, cards))


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
