"""The cluster as the inventory sees it: pods come late and elsewhere than promised, nodes come and go, claims stay."""

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

__all__ = ["Picture", "replica_names"]

_ADDRESSES = 6


def replica_names(promise: Reservation) -> Iterator[tuple[str, Replica]]:
    """Each replica with the name its pod has; a rebuilt promise numbers them alike."""
    numbers: Counter[int] = Counter()
    for replica in promise.replicas:
        numbers[replica.resource_id] += 1
        yield f"{replica.resource_id}-{numbers[replica.resource_id]}", replica


class Picture:
    """`inventory` is replaced, never changed. `namespace_of` names an order's namespace."""

    def __init__(self, random: Random, provider: str) -> None:
        self._random, self._provider, self._made = random, provider, 0
        nodes = tuple(draw_node(random, f"n{number}") for number in range(random.randint(2, 6)))
        pools = {name: random.choice((8, 40)) * GI for name in CLASSES}
        self.inventory = Inventory(nodes=nodes, pool_bytes=pools, address_count=_ADDRESSES)
        self._free_addresses = [f"203.0.113.{number}" for number in range(1, _ADDRESSES + 1)]

    def namespace_of(self, order: OrderId) -> str:
        return namespace_name(order.bid_by(self._provider))

    def schedule(self, order: OrderId, promise: Reservation) -> None:
        """Some of the missing pods of a lease get a node, claims are made and addresses given, each in its own time."""
        there = {pod.name for pod in self.inventory.pods if pod.namespace == self.namespace_of(order)}
        for name, replica in replica_names(promise):
            if name not in there and self._random.random() < 0.7:
                self._pod(order, name, replica, promise)
        self._claims(order, promise)
        self._address(order, promise)

    def _pod(self, order: OrderId, name: str, replica: Replica, promise: Reservation) -> None:
        """On the promised node; seldom, or when that is gone or full, on another: the scheduler decides."""
        have = {node.name: node for node in self._left()}
        fits = [node for node in have.values() if _fits(node, replica)]
        planned = [node for node in fits if node.name == replica.node]
        if not fits:
            return
        node = self._random.choice(planned if planned and self._random.random() < 0.95 else fits)
        pinned = promise.placements.get(replica.resource_id)
        pod = ScheduledPod(
            self.namespace_of(order), name, node.name, replica.requests,
            gpu_vendor=pinned.vendor if pinned else "", gpu_model=pinned.model if pinned else "",
            gpu_units=len(replica.cards),
        )  # fmt: skip
        self.inventory = replace(self.inventory, pods=(*self.inventory.pods, pod))

    def _left(self) -> list[Node]:
        """What pods alone leave: the scheduler knows nothing of promises."""
        left = {node.name: node for node in self.inventory.nodes}
        for pod in self.inventory.pods:
            if pod.node in left:
                node = left[pod.node]
                cards = take_cards(node.cards, vendor=pod.gpu_vendor, model=pod.gpu_model, units=pod.gpu_units)
                left[pod.node] = replace(node, capacity=node.capacity.minus(pod.requests), cards=cards)
        return list(left.values())

    def _claims(self, order: OrderId, promise: Reservation) -> None:
        """A class's claims, all or none of them yet."""
        namespace = self.namespace_of(order)
        have = {claim.storage_class for claim in self.inventory.claims if claim.namespace == namespace}
        for name, size in promise.volumes.items():
            if name not in have and self._random.random() < 0.5:
                made = VolumeClaim(namespace, f"{name}-0", name, size)
                self.inventory = replace(self.inventory, claims=(*self.inventory.claims, made))

    def _address(self, order: OrderId, promise: Reservation) -> None:
        """One more address, unless two services of the lease share one."""
        namespace = self.namespace_of(order)
        held = sum(namespace in users for users in self.inventory.addresses.values())
        if held < promise.leased_ips and self._free_addresses and self._random.random() < 0.5:
            given = {self._free_addresses.pop(): frozenset({namespace})}
            self.inventory = replace(self.inventory, addresses={**self.inventory.addresses, **given})

    def end(self, order: OrderId) -> None:
        """Everything of a lease is gone."""
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
        """Evicted or rolled: they are pending again."""
        namespace = self.namespace_of(order)
        kept = tuple(pod for pod in self.inventory.pods if pod.namespace != namespace or self._random.random() < 0.5)
        self.inventory = replace(self.inventory, pods=kept)

    def shake(self) -> None:
        """A node more, a node less, or a pod that is none of ours."""
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
