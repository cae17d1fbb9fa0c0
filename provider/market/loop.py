"""The market loop: blocks in, bids out. An event only says which order or bid to check; a full pass finds what events
missed (docs/architecture.md §2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from lease.ids import OrderId
from provider.bus import CHAIN_BLOCK, LEASE_CHANGED, Overflow
from provider.chain import events
from provider.errors import ChainError, StoreError
from provider.market.bid_end import BID_CLOSED_ELSEWHERE, LEASE_LOST, ORDER_CLOSED, end_bid
from provider.market.bidding import consider
from provider.market.book import Market
from provider.market.reconcile import adopt, adopt_lease, consider_open_orders, full_pass, remember_bids, time_out
from provider.metrics import ORDERS_COMPLETE
from provider.protocols import Subscription
from provider.protocols.chain import Block, Event
from provider.waits import wait_for_event

__all__ = ["on_block", "run_market"]

_log = structlog.get_logger(__name__)
_RETRY_S = 2.0
_BEHIND_S = 10.0
_TIMEOUT_S = 5.0
_PRUNE_S = 3600.0
_Spawn = Callable[[Coroutine[Any, Any, None]], object]


async def run_market(market: Market) -> None:
    """Runs for ever. It subscribes first, so that no block is missed, and decides only after its own leases and bids
    were adopted. The list of open orders is worked through beside the new orders: a list that is long or fails delays
    none of these (field problem A14).
    """
    async with market.bus.subscribe(CHAIN_BLOCK) as blocks, asyncio.TaskGroup() as group:
        await _until_done(market, adopt)
        market.adopted.set()
        await remember_bids(market)
        group.create_task(_passes(market), name="market passes")
        group.create_task(_timeouts(market), name="market timeouts")
        group.create_task(_pruning(market), name="market pruning")
        await _follow(market, blocks, spawn=group.create_task)


async def _follow(market: Market, blocks: Subscription, *, spawn: _Spawn) -> None:
    async for value in blocks:
        if isinstance(value, Block):
            on_block(market, value, spawn=spawn)
        elif isinstance(value, Overflow):
            _log.warning("market.events_lost", count=value.dropped)
            market.book.record = None
            market.audits.forget()
            market.full_pass_due.set()


async def _passes(market: Market) -> None:
    await _until_done(market, consider_open_orders)
    market.passed.set()
    while True:
        await wait_for_event(market.full_pass_due, clock=market.clock, seconds=market.interval)
        if market.full_pass_due.is_set():
            await market.clock.sleep(_RETRY_S)
        await _until_done(market, full_pass)


async def _until_done(market: Market, work: Callable[[Market], Awaitable[object]]) -> None:
    """Repeats `work` when it fails, and when it returns False, which means that the node is catching up."""
    while True:
        market.full_pass_due.clear()
        try:
            if await work(market) is not False:
                market.book.pass_problem = ""
                if market.repeats.ended("pass"):
                    _log.info("market.pass_works")
                return
            pause = _BEHIND_S
        except (ChainError, StoreError) as error:
            market.book.pass_problem = str(error)
            if market.repeats.is_news("pass", str(error)):
                _log.warning("market.pass_failed", problem=str(error))
            pause = _RETRY_S
        await market.clock.sleep(pause)


async def _timeouts(market: Market) -> None:
    """Between two full passes too: a bid that no tenant accepts holds capacity and a deposit."""
    while True:
        await market.clock.sleep(min(_TIMEOUT_S, market.bid_timeout or _TIMEOUT_S, market.interval))
        await time_out(market)


async def _pruning(market: Market) -> None:
    while True:
        try:
            gone = await market.log.prune(
                now=market.clock.now(), keep=market.decisions_kept, age_s=market.decisions_age
            )
            _log.debug("market.decisions_pruned", count=gone)
        except StoreError as error:
            _log.warning("market.not_pruned", problem=str(error))
        await market.clock.sleep(_PRUNE_S)


def on_block(market: Market, block: Block, *, spawn: _Spawn) -> None:
    """Start the work for each event of a block. Nothing here waits for the chain."""
    market.book.height = max(market.book.height, block.height)
    was, market.book.paused = market.book.paused, bool(market.paused())
    if was and not market.book.paused:
        _log.info("market.resumed", height=block.height)
        market.full_pass_due.set()
    if block.missed_from:
        _log.warning("market.blocks_missed", first=block.missed_from, height=block.height)
        market.book.record = None
        market.full_pass_due.set()
        market.audits.forget()
    for event in block.events:
        _on_event(market, event, spawn=spawn)


def _on_event(market: Market, event: Event, *, spawn: _Spawn) -> None:
    match event.type:
        case events.ORDER_CREATED:
            order = events.order_id(event)
            if order is not None:
                spawn(consider(market, order))
        case events.LEASE_CREATED:
            _on_lease_created(market, event, spawn=spawn)
        case events.BID_CLOSED:
            bid = events.lease_id(event)
            if bid is not None and bid.provider == market.provider:
                _end(
                    market,
                    lambda order: order == bid.order,
                    "the bid was closed",
                    spawn=spawn,
                    result=BID_CLOSED_ELSEWHERE,
                )
        case events.PROVIDER_CREATED | events.PROVIDER_UPDATED if event.fields.get("owner") == market.provider:
            market.book.record = None
            market.full_pass_due.set()
        case events.AUDITOR_CREATED | events.AUDITOR_DELETED if event.fields.get("owner") == market.provider:
            market.audits.forget(str(event.fields.get("auditor", "")))
            market.full_pass_due.set()
        case _:
            _on_end(market, event, spawn=spawn)


def _on_end(market: Market, event: Event, *, spawn: _Spawn) -> None:
    """An order ends with itself, its group or its deployment; not each of these has its own event (chain.md §14, 2)."""
    match event.type:
        case events.ORDER_CLOSED:
            closed = events.order_id(event)
            if closed is not None:
                market.book.forget_order(closed)
            _end(market, lambda order: order == closed, "the order was closed", spawn=spawn)
        case events.GROUP_CLOSED | events.GROUP_PAUSED:
            group = events.group_id(event)
            _end(market, lambda order: order.group == group, "the group was closed or paused", spawn=spawn)
        case events.DEPLOYMENT_CLOSED:
            deployment = events.deployment_id(event)
            _end(market, lambda order: order.deployment == deployment, "the deployment was closed", spawn=spawn)


def _on_lease_created(market: Market, event: Event, *, spawn: _Spawn) -> None:
    """A lease of another provider on the same group means that the own bid has lost; no event says so (chain.md §3)."""
    lease = events.lease_id(event)
    if lease is None:
        return
    if lease.provider == market.provider:
        spawn(_won(market, lease.order))
    else:
        _end(
            market,
            lambda order: order.group == lease.group,
            f"lost to {lease.provider}",
            spawn=spawn,
            result=LEASE_LOST,
        )


async def _won(market: Market, order: OrderId) -> None:
    try:
        answer = await market.chain.lease(order.bid_by(market.provider))
        if answer.lease is None or answer.lease.state.ended:
            market.full_pass_due.set()
            return
        await adopt_lease(market, answer.lease)
        market.bus.publish(LEASE_CHANGED, answer.lease.id)
        ORDERS_COMPLETE.labels("lease-won").inc()
        _log.info("market.lease_won", order=str(order))
    except (ChainError, StoreError) as error:
        _log.warning("market.lease_unread", order=str(order), problem=str(error))
        market.full_pass_due.set()


def _end(
    market: Market, concerns: Callable[[OrderId], bool], why: str, *, spawn: _Spawn, result: str = ORDER_CLOSED
) -> None:
    """End the own bids on the orders that `concerns` selects. A lease is the business of the lease loop."""
    known = set(market.book.placed) | market.book.busy
    for order in known - market.book.leased:
        if concerns(order):
            spawn(end_bid(market, order, why, result=result))
