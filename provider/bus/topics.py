"""The topics whose values are of no other part of the provider. `lease.state` and `stack.result` are in
`provider.lifecycle.state`, those of money in `provider.funds.watch`, those of the inventory operator in
`provider.operators.inventory.publication`, and the public ones in `provider.observe.publication`.
"""

from __future__ import annotations

from lease.ids import LeaseId
from provider.protocols.bus import Topic
from provider.protocols.chain import Block

__all__ = ["CHAIN_BLOCK", "INVENTORY_CHANGED", "LEASE_CHANGED", "MANIFEST_ACCEPTED"]

CHAIN_BLOCK: Topic[Block] = Topic("chain.block")
"""Every height once and in order. Each process follows the chain itself."""
LEASE_CHANGED: Topic[LeaseId] = Topic("lease.changed", shared=LeaseId)
"""A lease was won, found or its escrow ends: the lease loop checks it."""
MANIFEST_ACCEPTED: Topic[LeaseId] = Topic("manifest.accepted", shared=LeaseId)
"""A gateway has stored a manifest for the lease."""
INVENTORY_CHANGED: Topic[None] = Topic("inventory.changed")
"""The inventory differs from the last one."""
