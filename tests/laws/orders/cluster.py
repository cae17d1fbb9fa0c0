"""A random cluster as the inventory sees it: pods come late and on other nodes than reserved, nodes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from lease.ids import OrderId, namespace_name
from provider.inventory.capacity import Capacity, Card
from provider.inventory.reservation import Replica, Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, VolumeClaim, take_cards
from tests.laws.orders.drawing import CLASSES, GI, draw_node

__all__ = ["RandomCluster", "replica_names"]

_ADDRESSES = 6


def replica_names(reservation: Reservation) -> Iterator[tuple[str, Replica]]:
    """Each replica with the name of its pod; a rebuilt reservation gives the same names."""
    numbers: Counter[int] = Counter()
    for replica in reservation.replicas:
        numbers[replica.resource_id] += 1
        yield f"{replica.resource_id}-{numbers[replica.resource_id]}", replica


class RandomCluster:
    """`inventory` is replaced, never changed. `namespace_of` names an order's namespace."""

    def __init__(self, random: Random, provider: str) -> None:
        self._random, self._provider, self._made = random, provider, 0
        nodes = tuple(draw_node(random, f"n{number}") for number in range(random.randint(2, 6)))
        pools = {name: random.choice((8, 40)) * GI for name in CLASSES}
        self.inventory = Inventory(nodes=nodes, pool_bytes=pools, address_count=_ADDRESSES)
        self._free_addresses = [f"203.0.113.{number}" for number in range(1, _ADDRESSES + 1)]

    def namespace_of(self, order: OrderId) -> str:
        return namespace_name(order.bid_by(self._provider))

    def schedule(self, order: OrderId, reservation: Reservation) -> None:
        """Some of the missing pods of a lease get a node, claims are created and addresses assigned, each at its own
        time.
        """
        there = {pod.name for pod in self.inventory.pods if pod.namespace == self.namespace_of(order)}
        for name, replica in replica_names(reservation):
            if name not in there and self._random.random() < 0.7:
                self._pod(order, name, replica, reservation)
        self._claims(order, reservation)
        self._address(order, reservation)

    def _pod(self, order: OrderId, name: str, replica: Replica, reservation: Reservation) -> None:
        """On the reserved node; rarely, or when that node is gone or full, on another, as a scheduler may decide."""
        have = {node.name: node for node in self._left()}
        fits = [node for node in have.values() if _fits(node, replica)]
        planned = [node for node in fits if node.name == replica.node]
        if not fits:
            return
        node = self._random.choice(planned if planned and self._random.random() < 0.95 else fits)
        pinned = reservation.placements.get(replica.resource_id)
        pod = ScheduledPod(
            self.namespace_of(order), name, node.name, replica.requests,
            gpu_vendor=pinned.vendor if pinned else "", gpu_model=pinned.model if pinned else "",
            gpu_units=len(replica.cards),
        )  # fmt: skip
        self.inventory = replace(self.inventory, pods=(*self.inventory.pods, pod))

    def _left(self) -> list[Node]:
        """The capacity that pods leave: a scheduler does not know reservations."""
        left = {node.name: node for node in self.inventory.nodes}
        for pod in self.inventory.pods:
            if pod.node in left:
                node = left[pod.node]
                cards = take_cards(node.cards, vendor=pod.gpu_vendor, model=pod.gpu_model, units=pod.gpu_units)
                left[pod.node] = replace(node, capacity=node.capacity.minus(pod.requests), cards=cards)
        return list(left.values())

    def _claims(self, order: OrderId, reservation: Reservation) -> None:
        """The claims of a storage class: all of them, or none yet."""
        namespace = self.namespace_of(order)
        have = {claim.storage_class for claim in self.inventory.claims if claim.namespace == namespace}
        for name, size in reservation.volumes.items():
            if name not in have and self._random.random() < 0.5:
                made = VolumeClaim(namespace, f"{name}-0", name, size)
                self.inventory = replace(self.inventory, claims=(*self.inventory.claims, made))

    def _address(self, order: OrderId, reservation: Reservation) -> None:
        """One more address, unless two services of the lease share one."""
        namespace = self.namespace_of(order)
        held = sum(namespace in users for users in self.inventory.addresses.values())
        if held < reservation.leased_ips and self._free_addresses and self._random.random() < 0.5:
            given = {self._free_addresses.pop(): frozenset({namespace})}
            self.inventory = replace(self.inventory, addresses={**self.inventory.addresses, **given})

    def end(self, order: OrderId) -> None:
        """Removes everything of a lease."""
        namespace, now = self.namespace_of(order), self.inventory
        kept = {address: users for address, users in now.addresses.items() if namespace not in users}
        self._free_addresses += [address for address in now.addresses if address not in kept]
        self.inventory = replace(
            now,
            pods=tuple(pod for pod in now.pods if pod.namespace != namespace),
            claims=tuple(claim for claim in now.claims if claim.namespace != namespace),
            addresses=kept,
        )

    def lose_pods(self, order: OrderId) -> None:
        """Pods are evicted or replaced, and pending again."""
        namespace = self.namespace_of(order)
        kept = tuple(pod for pod in self.inventory.pods if pod.namespace != namespace or self._random.random() < 0.5)
        self.inventory = replace(self.inventory, pods=kept)

    def shake(self) -> None:
        """A node comes, a node goes, or a pod of somebody else comes."""
        self._made += 1
        match self._random.choice(("node", "foreign", "foreign gone", "gone", "same")):
            case "node" if len(self.inventory.nodes) < 8:
                node = draw_node(self._random, f"m{self._made}")
                self.inventory = replace(self.inventory, nodes=(*self.inventory.nodes, node))
            case "gone" if len(self.inventory.nodes) > 2:
                gone = self._random.choice(self.inventory.nodes).name
                self.inventory = replace(
                    self.inventory,
                    nodes=tuple(node for node in self.inventory.nodes if node.name != gone),
                    pods=tuple(pod for pod in self.inventory.pods if pod.node != gone),
                )
            case "foreign":
                self._foreign()
            case "foreign gone":
                kept = tuple(pod for pod in self.inventory.pods if pod.namespace != "monitoring")
                self.inventory = replace(self.inventory, pods=kept)
            case _:
                self.inventory = replace(self.inventory)

    def _foreign(self) -> None:
        small = Capacity(200, 64 << 20, 0, 1)
        fits = [node for node in self._left() if node.capacity.holds(small)]
        if fits:
            pod = ScheduledPod("monitoring", f"agent-{self._made}", self._random.choice(fits).name, small)
            self.inventory = replace(self.inventory, pods=(*self.inventory.pods, pod))


def _fits(node: Node, replica: Replica) -> bool:
    have, want = Counter[tuple[str, str]](map(_kind, node.cards)), Counter(map(_kind, replica.cards))
    return node.capacity.holds(replica.requests) and want <= have


def _kind(card: Card) -> tuple[str, str]:
    return card.vendor, card.model
