"""The full pass: compares everything with the chain's state, at the start, every minute, and after a missed event.

First leases, then own open bids, then open orders, so that existing reservations count before a new order is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.bus import LEASE_CHANGED
from provider.errors import ChainError, StoreError
from provider.inventory.address_pools import log_pooled_addresses
from provider.inventory.overuse import log_overused
from provider.market.advertised import log_unmatched
from provider.market.bid_end import BID_TIMEOUT, end_bid, forget
from provider.market.bidding import consider_all
from provider.market.book import Market, Placed
from provider.market.group_specs import group_spec, group_specs
from provider.market.inputs import current_record
from provider.market.limits import deposit_reason
from provider.market.record.decisions import bids_since, orders_decided
from provider.protocols.chain import (
    Bid,
    BidState,
    Head,
    Lease,
    LeaseState,
    MarketParams,
    OrderState,
    ProviderRecord,
)
from provider.waits import side_by_side

__all__ = ["adopt", "adopt_lease", "consider_open_orders", "full_pass", "remember_bids", "time_out"]

_log = structlog.get_logger(__name__)
_AT_ONCE = 16
_HOUR_S = 3600.0
_UNSETTLED_S = 90.0
"""A younger bid may not be in a block yet, so that its absence proves nothing."""
_APART_BLOCKS = 5
"""So far the node that received the bid may have been ahead of the highest block that this provider had seen."""


@dataclass(frozen=True, slots=True)
class _OnChain:
    """What the chain says of this provider and of the market."""

    head: Head
    record: ProviderRecord | None
    params: MarketParams
    bids: Sequence[Bid]
    leases: Sequence[Lease]


async def full_pass(market: Market) -> bool:
    """Adopt own leases and bids, release the reservations of those that ended, then handle every open order. Returns
    False when the node is catching up. Raises `ChainError`.
    """
    book, inventory = market.book, market.inventory()
    book.overused = log_overused(inventory, book.overused)
    book.pooled = log_pooled_addresses(inventory.pooled, book.pooled)
    if not await adopt(market):
        return False
    await consider_open_orders(market)
    return True


async def consider_open_orders(market: Market) -> None:
    """Handle every open order, and end own bids on orders that are no longer open. Raises `ChainError`."""
    orders = list(await market.chain.open_orders())
    seen = {order.id for order in orders}
    market.book.keep_only(seen, now=market.clock.now())
    ending = asyncio.ensure_future(_end_overtaken(market, seen))
    try:
        if await current_record(market) is not None:
            await consider_all(market, [order for order in orders if order.id not in market.book.placed])
    except BaseException:
        ending.cancel()
        raise
    await ending


async def _end_overtaken(market: Market, open_orders: Iterable[OrderId]) -> None:
    """End own bids whose order is no longer open although no event said so. Their ends share a block."""
    ends: dict[OrderId, str] = {}
    for order_id in set(market.book.placed) - set(open_orders) - market.book.busy:
        order = await market.chain.order(order_id)
        if order is not None and order.state is not OrderState.OPEN and order_id in market.book.placed:
            ends[order_id] = f"the order is {order.state.name.lower()}"
    await asyncio.gather(*(end_bid(market, order_id, why) for order_id, why in ends.items()))


async def adopt(market: Market) -> bool:
    """Read own leases and bids from the chain and reserve their capacity. Returns False when the node is catching
    up.
    """
    found = await _read_chain(market)
    head, bids, leases = found.head, found.bids, found.leases
    if head.catching_up:
        if market.repeats.is_news("node", "catching up"):
            _log.warning("market.node_catching_up", height=head.height)
        return False
    market.repeats.ended("node")
    market.book.height = max(market.book.height, head.height)
    market.book.record, market.book.record_at = found.record, market.clock.now()
    market.book.params = found.params
    if not (problem := deposit_reason(market.deposit, market.book.params)):
        market.repeats.ended("deposit")
    elif market.repeats.is_news("deposit", problem):
        _log.error("market.deposit_not_taken", problem=problem)
    if market.book.record is None:
        remedy = "create the provider on the chain; no bids are made until then"
        if market.repeats.is_news("record", remedy):
            _log.error("market.not_registered", provider=market.provider, remedy=remedy)
    else:
        market.repeats.ended("record")
        market.book.unmatched = log_unmatched(market.book.record.attributes, market.inventory(), market.book.unmatched)
    await _adopt_leases(market, leases)
    market.book.deposits = {bid.id.order: bid.deposit for bid in bids}
    await side_by_side(lambda bid: _adopt_bid(market, bid, head=head), bids, at_once=_AT_ONCE)
    market.book.leased.intersection_update({*market.ledger.orders(), *(lease.id.order for lease in leases)})
    await _release_ended(market, leases=leases, bids=bids)
    return True


async def _read_chain(market: Market) -> _OnChain:
    """Ask for all of it at the same time: a node may be far away, and the first bid waits. The first failure ends
    all.
    """
    chain = market.chain
    asked = (
        asyncio.ensure_future(chain.head()),
        asyncio.ensure_future(chain.provider(market.provider)),
        asyncio.ensure_future(chain.market_params()),
        asyncio.ensure_future(_bids_and_leases(market)),
    )
    try:
        head, record, params, (bids, leases) = await asyncio.gather(*asked)
    except BaseException:
        for each in asked:
            each.cancel()
        raise
    return _OnChain(head, record, params, bids, leases)


async def _bids_and_leases(market: Market) -> tuple[Sequence[Bid], Sequence[Lease]]:
    """Own open bids and living leases. Bids first: a bid that is accepted meanwhile is then in both lists."""
    bids = await market.chain.bids(market.provider, BidState.OPEN)
    living = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
    return bids, await market.chain.leases(provider=market.provider, states=living)


async def remember_bids(market: Market) -> None:
    """Take the bids of the last hour that became no lease from the store: a tenant's limit of them does not begin anew
    with a start.
    """
    try:
        for order, at in await bids_since(market.database, market.clock.now() - _HOUR_S):
            if order not in market.book.leased:
                market.book.bid_at.setdefault(order.owner, {}).setdefault(order, at)
    except StoreError as error:
        _log.warning("market.bids_not_remembered", problem=str(error))


async def _adopt_leases(market: Market, leases: Iterable[Lease]) -> None:
    """Reserve the capacity of the leases that are not known yet. The lease loop gets a notice of each lease that comes
    after the start. At the start it finds all leases itself, and a notice would make it read each lease apart.
    """
    new = [lease for lease in leases if not _adopted(market, lease)]
    specs = await group_specs(market, [lease.id.order for lease in new])
    for lease in new:
        await adopt_lease(market, lease, spec=specs.get(lease.id.order))
        if market.adopted.is_set() and _adopted(market, lease):
            market.bus.publish(LEASE_CHANGED, lease.id)
        await asyncio.sleep(0)  # each costs half a millisecond, and tenants are answered meanwhile


def _adopted(market: Market, lease: Lease) -> bool:
    order = lease.id.order
    return order in market.book.leased and market.ledger.reservation(order) is not None


async def adopt_lease(market: Market, lease: Lease, *, spec: GroupSpec | None = None) -> None:
    """Reserve the capacity of a lease that is not known yet. `spec`: its group, which is asked for if it is needed and
    not given.
    """
    order = lease.id.order
    if _adopted(market, lease):
        return
    if market.ledger.reservation(order) is None:
        spec = spec or await group_spec(market, order)
        if spec is None:
            return
        market.ledger.rebuild(order, spec, inventory=market.inventory(), overcommit=market.rules.overcommit)
    market.book.leased.add(order)
    market.book.bid_at.get(order.owner, {}).pop(order, None)
    placed = market.book.placed.pop(order, None)
    market.book.deposits.pop(order, None)
    if placed is not None and placed.decision:
        await market.outcomes.record(placed.decision, "lease")


async def _adopt_bid(market: Market, bid: Bid, *, head: Head) -> None:
    order_id = bid.id.order
    if order_id in market.book.placed or order_id in market.book.busy or order_id in market.book.leased:
        return
    order = await market.chain.order(order_id)
    if order is None:
        return
    known = [one.id for one in await orders_decided(market.database, order_id) if one.verdict == "bid"]
    age = await _age(market, bid, head)
    # also for an order that is no longer open: it may be a lease of this provider; if not, the bid is ended with others
    market.ledger.rebuild(order_id, order.spec, inventory=market.inventory(), overcommit=market.rules.overcommit)
    market.book.placed[order_id] = Placed(market.clock.now() - age, known[0] if known else None)
    _log.info("market.bid_adopted", order=str(order_id))


async def _age(market: Market, bid: Bid, head: Head) -> float:
    """The seconds since the block of the bid, by the chain's own clock: blocks take a second here and six there. 0 when
    the node has that block no more, so that the bid stays open longer rather than shorter.
    """
    try:
        return max(0.0, head.time - await market.chain.block_time(bid.created_at))
    except ChainError as error:
        _log.warning("market.age_of_bid_unknown", order=str(bid.id.order), problem=str(error))
        return 0.0


async def _release_ended(market: Market, *, leases: Iterable[Lease], bids: Iterable[Bid]) -> None:
    """Reservations whose bid or lease is in neither list; the chain is asked for each before it is released."""
    living = {lease.id.order for lease in leases} | {bid.id.order for bid in bids} | market.book.busy
    for order in market.ledger.orders():
        if order not in living:
            await _release_ended_one(market, order)


async def _release_ended_one(market: Market, order: OrderId) -> None:
    """Only the chain's answer that a lease has ended releases its reservation. That the chain has no bid counts once
    the bid had time to arrive.
    """
    lease_id = order.bid_by(market.provider)
    answer = await market.chain.lease(lease_id)
    if answer.lease is not None:
        if answer.lease.state.ended:
            market.book.leased.discard(order)
            forget(market, order)
            market.bus.publish(LEASE_CHANGED, lease_id)
        return
    bid = await market.chain.bid(lease_id)
    placed = market.book.placed.get(order)
    settled = placed is None or _settled(market, placed)
    if order not in market.book.leased and ((bid is None and settled) or _gone(bid)):
        _log.warning("market.reservation_released", order=str(order), reason="the chain has no bid and no lease for it")
        forget(market, order)


def _settled(market: Market, placed: Placed) -> bool:
    """Whether a bid that is in no block now will be in no later block. Heights decide before the clock."""
    if placed.unknown_at:
        return market.book.height > placed.unknown_at + market.bid_blocks + _APART_BLOCKS
    return market.clock.now() - placed.since > _UNSETTLED_S


def _gone(bid: Bid | None) -> bool:
    return bid is not None and bid.state in (BidState.LOST, BidState.CLOSED)


async def time_out(market: Market) -> None:
    """End own bids that no tenant has accepted within the bid timeout. Their ends share a block, and each waits
    for it.
    """
    if market.bid_timeout <= 0:
        return
    limit = market.clock.now() - market.bid_timeout
    closing = market.book.closing
    late = {order: placed for order, placed in market.book.placed.items() if placed.since < limit}
    due = {order for order, placed in late.items() if not placed.unknown_at or _settled(market, placed)} - closing
    closing |= due
    try:
        why = "no lease within the bid timeout"
        await asyncio.gather(*(end_bid(market, order, why, until_closed=True, result=BID_TIMEOUT) for order in due))
    finally:
        closing -= due
