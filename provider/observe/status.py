"""The status document: what the provider would say of itself, as data. Who serves it gives it its wire form."""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId
from provider.inventory.snapshot import Inventory, Snapshot

__all__ = ["StatusDocument"]


@dataclass(frozen=True, slots=True)
class StatusDocument:
    """`free` is after promises. `height` is the last block handed on, `node_height` what the node says."""

    provider: str
    chain_id: str
    height: int
    node_height: int
    leases: tuple[LeaseId, ...]
    open_bids: int
    inventory: Inventory
    free: Snapshot
    problems: tuple[str, ...] = ()

    @property
    def blocks_behind(self) -> int:
        return max(0, self.node_height - self.height)
