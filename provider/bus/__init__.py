"""Publish and subscribe: inside the provider, and by Redis between processes."""

from provider.bus.memory import MemoryBus, Overflow
from provider.bus.topics import CHAIN_BLOCK, INVENTORY_CHANGED, LEASE_CHANGED, MANIFEST_ACCEPTED

__all__ = [
    "CHAIN_BLOCK",
    "INVENTORY_CHANGED",
    "LEASE_CHANGED",
    "MANIFEST_ACCEPTED",
    "MemoryBus",
    "Overflow",
]
