"""The groups of orders that became leases: what the store knows of them, and the chain for all others.

A start needs the group of every lease before the first bid, since what is rented must not be offered again. One query
of the store answers for all leases whose decision is still kept; the group of an order never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.errors import StoreError
from provider.market.book import Market
from provider.market.record.decisions import won_specs
from provider.waits import side_by_side

__all__ = ["group_spec", "group_specs"]

_FEW = 4
"""So few are asked of the chain: a query of the store reads all decisions."""
_AT_ONCE = 16
_log = structlog.get_logger(__name__)


async def group_spec(market: Market, order: OrderId) -> GroupSpec | None:
    """The group of one order, of its deployment when the chain has no such order. Raises `ChainError`."""
    found = await market.chain.order(order)
    return found.spec if found is not None else await market.chain.group(order.group)


async def group_specs(market: Market, orders: Sequence[OrderId]) -> Mapping[OrderId, GroupSpec | None]:
    """The groups of these orders, whose reservations are not known. Raises `ChainError`."""
    if all(market.ledger.reservation(order) is not None for order in orders):
        return {}
    kept = await _kept(market) if len(orders) > _FEW else {}
    asked = [order for order in orders if order not in kept and market.ledger.reservation(order) is None]
    return {**kept, **await _asked(market, asked)}


async def _kept(market: Market) -> Mapping[OrderId, GroupSpec]:
    try:
        return await won_specs(market.database)
    except StoreError as error:
        _log.warning("market.groups_not_kept", problem=str(error))
        return {}


async def _asked(market: Market, orders: Sequence[OrderId]) -> Mapping[OrderId, GroupSpec | None]:
    """Several at a time. The first failure ends all."""
    found = await side_by_side(lambda order: group_spec(market, order), orders, at_once=_AT_ONCE)
    return dict(zip(orders, found, strict=True))
