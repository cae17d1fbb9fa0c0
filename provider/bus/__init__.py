"""Publish and subscribe inside the provider."""

from provider.bus.memory import (
    CHAIN_BLOCK,
    FUNDS_ESCROW,
    FUNDS_WALLET,
    INVENTORY_CHANGED,
    LEASE_CHANGED,
    MANIFEST_ACCEPTED,
    MemoryBus,
    Overflow,
)

__all__ = [
    "CHAIN_BLOCK",
    "FUNDS_ESCROW",
    "FUNDS_WALLET",
    "INVENTORY_CHANGED",
    "LEASE_CHANGED",
    "MANIFEST_ACCEPTED",
    "MemoryBus",
    "Overflow",
]
