"""The inventory as frozen data: what the cluster has, what runs in it, and what is free after reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from provider.inventory.capacity import Capacity, Card
from provider.inventory.index import Index

__all__ = ["NODE_PORTS", "Inventory", "Node", "ScheduledPod", "Snapshot", "VolumeClaim", "take_cards"]


NODE_PORTS = 2768
"""Node ports of a cluster that sets no range of its own: 30000 to 32767."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that takes tenants' pods. `capacity` and `cards`: all that is allocatable in an `Inventory`, the free part
    in a `Snapshot`.
    """

    name: str
    capacity: Capacity
    cards: tuple[Card, ...] = ()
    storage_classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduledPod:
    """A pod that has a node and has not ended. `gpu_model` is empty when its affinity names none."""

    namespace: str
    name: str
    node: str
    requests: Capacity
    gpu_vendor: str = ""
    gpu_model: str = ""
    gpu_units: int = 0


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    namespace: str
    name: str
    storage_class: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cluster as it is now. `pool_bytes`: storage class → its size in bytes."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[ScheduledPod, ...] = ()
    claims: tuple[VolumeClaim, ...] = ()
    pool_bytes: Mapping[str, int] = field(default_factory=dict)
    address_count: int = 0
    addresses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Leased address → the namespaces that use it."""
    node_port_count: int = NODE_PORTS
    node_ports: Mapping[str, int] = field(default_factory=dict)
    """Namespace → the node ports that its Services have."""
    pooled: Mapping[str, int] = field(default_factory=dict)
    """Pool of MetalLB → how many addresses of the operator's ranges it holds. They cannot be leased and are not in
    `address_count`. Pools of leases are left out.
    """


@dataclass(frozen=True)
class Snapshot:
    """The free capacity: allocatable − scheduled − reserved, never negative. A decision has no other input about it."""

    nodes: tuple[Node, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    free_addresses: int = 0
    free_node_ports: int = NODE_PORTS
    pooled: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def index(self) -> Index:
        return Index(self.nodes)


def take_cards(cards: tuple[Card, ...], *, vendor: str, model: str, units: int) -> tuple[Card, ...]:
    """`cards` without `units` cards of the vendor: those of the model first, then others, as many as there are."""
    alike = [card for card in cards if card.vendor == vendor]
    alike.sort(key=lambda card: card.model != model)
    left = list(cards)
    for card in alike[:units]:
        left.remove(card)
    return tuple(left)
