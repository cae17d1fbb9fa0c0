"""`GET /status`: the public status of the provider (gateway.md §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provider.inventory.capacity import Card

__all__ = ["Amounts", "NodeAmounts", "ProviderStatus", "status_document"]


@dataclass(frozen=True, slots=True)
class Amounts:
    """The resources of a reservation or a node. `storage_bytes`: by class, empty for a node."""

    cpu_milli: int
    gpu_units: int
    memory_bytes: int
    ephemeral_bytes: int
    storage_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """`available`: without what pending reservations take."""

    name: str
    allocatable: Amounts
    available: Amounts
    cards: tuple[Card, ...] = ()
    storage_classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """`leases`, `orders`, `deployments`: counts. `active` (allocated) and `pending`: one entry per reservation.
    `braked`: leases that are proven closed and that the teardown brake holds until the operator decides.
    """

    leases: int = 0
    orders: int = 0
    deployments: int = 0
    active: tuple[Amounts, ...] = ()
    pending: tuple[Amounts, ...] = ()
    nodes: tuple[NodeAmounts, ...] = ()
    storage_bytes: Mapping[str, int] = field(default_factory=dict)
    braked: int = 0
    pool_bytes: Mapping[str, int] = field(default_factory=dict)
    """The size of each storage class; `storage_bytes` is what is free of it."""
    addresses: int = 0
    free_addresses: int = 0
    """Addresses that may be leased, and those that are neither leased nor promised."""


def status_document(
    status: ProviderStatus, *, address: str, public_hostname: str, reclamation_window_ns: int
) -> dict[str, Any]:
    """The document with its fields in Go's order, without empty lists and unset settings."""
    document: dict[str, Any] = {
        "cluster": {"leases": status.leases, "inventory": _inventory(status)},
        "bidengine": {"orders": status.orders},
        "manifest": {"deployments": status.deployments},
    }
    if public_hostname:
        document["cluster_public_hostname"] = public_hostname
    if reclamation_window_ns:
        document["reclamation_window"] = reclamation_window_ns
    if status.braked:  # not in Go's document
        return document | {"address": address, "teardown_brake": {"held": status.braked}}
    return document | {"address": address}


def _inventory(status: ProviderStatus) -> dict[str, Any]:
    reserved = {"active": list(map(_amounts, status.active)), "pending": list(map(_amounts, status.pending))}
    available = {
        "nodes": [
            {"name": node.name, "allocatable": _amounts(node.allocatable), "available": _amounts(node.available)}
            for node in status.nodes
        ],
        "storage": [{"class": name, "size": size} for name, size in sorted(status.storage_bytes.items())],
    }
    return _without_empty(reserved) | {"available": _without_empty(available)}


def _amounts(amounts: Amounts) -> dict[str, Any]:
    document: dict[str, Any] = {
        "cpu": amounts.cpu_milli,
        "gpu": amounts.gpu_units,
        "memory": amounts.memory_bytes,
        "storage_ephemeral": amounts.ephemeral_bytes,
    }
    return document | _without_empty({"storage": dict(sorted(amounts.storage_bytes.items()))})


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
