"""Which card each GPU service of a lease is to have.

A lease that was taken over when there was no room for it (a node away at a start, say) is promised without a place.
Whoever needs its cards asks here, and then it is looked for again: nothing else would, and it would wait for ever.
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
"""By resource id; None where the ledger chose no card."""
Cards: TypeAlias = Callable[[LeaseId], Placements | None]


def cards_of(ledger: Ledger, inventory: Callable[[], Inventory], *, overcommit: Overcommit) -> Cards:
    """What the ledger chose, chosen again where it found no room before; None for a lease it knows nothing of."""

    def cards(lease: LeaseId) -> Placements | None:
        found = ledger.reservation(lease.order)
        if found is None:
            return None
        if not all(replica.node for replica in found.replicas):
            found = ledger.rebuild(lease.order, found.group_spec, inventory=inventory(), overcommit=overcommit)
        return found.placements

    return cards
