"""Which card each GPU service of a lease gets.

A lease that was adopted while no node had the capacity (a node was away at the start, say) has a reservation without
nodes. Asking for its cards here places it again; nothing else would, and the lease would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lease.ids import LeaseId
from lease.spec import GpuPlacement
from provider.inventory.capacity import Overcommit
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory

__all__ = ["Cards", "Placements", "cards_of"]

Placements: TypeAlias = Mapping[int, GpuPlacement | None]
"""Resource id → the card; None where the ledger chose none."""
Cards: TypeAlias = Callable[[LeaseId], Placements | None]


def cards_of(ledger: Ledger, inventory: Callable[[], Inventory], *, overcommit: Overcommit) -> Cards:
    """Returns a function from a lease to its cards. It places a lease again that has no nodes, and returns None for a
    lease without a reservation.
    """

    def cards(lease: LeaseId) -> Placements | None:
        found = ledger.reservation(lease.order)
        if found is None:
            return None
        if not all(replica.node for replica in found.replicas):
            found = ledger.rebuild(lease.order, found.group_spec, inventory=inventory(), overcommit=overcommit)
        return found.placements

    return cards
