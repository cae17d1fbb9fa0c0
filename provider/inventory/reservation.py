"""The reservation of an order: its replicas, each with its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lease.groups import GroupSpec, ResourceUnit
from lease.ids import OrderId
from lease.spec import GpuPlacement
from provider.inventory.capacity import Capacity, Card

__all__ = ["Replica", "Reservation", "Shortage"]


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod of the order. `requests`: what the pod will request from Kubernetes. `ram_bytes`: the part of it for RAM
    volumes. A pod of form 1 does not state that part, so that it stays reserved while the pod runs. `node` is empty
    when no node had the capacity (an adopted lease).
    """

    resource_id: int
    node: str
    requests: Capacity
    ram_bytes: int = 0
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True)
class Reservation:
    """`placements`: resource id → the card its pods are pinned to, None without GPU. `offer`: the units as committed,
    with the chosen card in place of the patterns, for the bid (bidding.md §1.5). `volumes`: storage class → bytes of
    all replicas. `leased_ips`: distinct leased-IP endpoints of the group. `node_ports`: its
    endpoints on random ports.
    """

    order: OrderId
    group_spec: GroupSpec
    placements: Mapping[int, GpuPlacement | None]
    replicas: tuple[Replica, ...]
    offer: tuple[ResourceUnit, ...]
    volumes: Mapping[str, int] = field(default_factory=dict)
    leased_ips: int = 0
    node_ports: int = 0

    @property
    def nodes(self) -> dict[int, tuple[str, ...]]:
        """Resource id → the node of each replica."""
        found: dict[int, tuple[str, ...]] = {}
        for replica in self.replicas:
            found[replica.resource_id] = (*found.get(replica.resource_id, ()), replica.node)
        return found


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why an order does not fit, in short. `provider.inventory.shortage.lacking` says what each node lacks."""

    reasons: tuple[str, ...]
