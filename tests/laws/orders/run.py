"""Runs of some hundred orders, each in its own cluster. A result has the first broken rules, and what happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lease.ids import OrderId
from provider.protocols.chain import BidState, OrderState
from tests.laws.orders.world import RIVAL, US, Made, World
from tests.world.virtual import run_virtual

__all__ = ["Result", "run_orders"]

_ACTIONS = {"order": 30, "take": 34, "close": 14, "schedule": 40, "roll": 2, "drop": 6, "shake": 3, "wait": 2}

_FORGET_S = 120.0


@dataclass(frozen=True)
class Result:
    seed: int
    orders: int
    problems: Sequence[str]
    facts: Counter[str]


def run_orders(seed: int, count: int, made: Made | None = None) -> Result:
    """Runs until `count` orders were created and everything has settled, or until a rule is broken."""
    return run_virtual(_run(seed, count, made or Made()))


async def _run(seed: int, count: int, made: Made) -> Result:
    world = World(seed, made)
    try:
        while world.orders < count and not world.problems:
            await _step(world)
            world.check()
        if not world.problems:
            await _calm(world)
    finally:
        await world.kill()
        await world.database.close()
    world.facts["seconds"] = int(world.now)
    return Result(seed, world.orders, tuple(world.problems), world.facts)


async def _step(world: World) -> None:
    random = world.random
    for _ in range(random.randint(1, 4)):
        _act(world, random.choices(list(_ACTIONS), list(_ACTIONS.values()))[0])
    if random.random() < 0.004:
        await world.restart()
    if random.random() < 0.01:
        world.faults.start("disk full", random.uniform(1, 20))
    _sweep(world)
    await asyncio.sleep(random.choice((0.01, 0.5, 3.0, 6.0)) * random.random())
    await world.block()


def _act(world: World, what: str) -> None:
    random = world.random
    match what:
        case "order":
            world.new_order()
        case "take" if bids := _open_bids(world):
            order = random.choice(bids)
            ours = random.random() < 0.6
            world.chain.create_lease(order.bid_by(US if ours else RIVAL))
            world.facts["won" if ours else "lost"] += 1
            if not ours:
                world.ended(order)
        case "close" if leases := sorted(world.alive()):
            lease = random.choice(leases)
            world.chain.close_lease(lease)
            world.ended(lease.order)
        case "drop" if bids := _open_bids(world):
            order = random.choice(bids)
            world.chain.close_order(order)
            world.ended(order)
            world.facts["dropped"] += 1
        case "schedule":
            _schedule(world)
        case "roll" if leases := sorted(world.alive()):
            world.cluster.lose_pods(random.choice(leases).order)
        case "shake":
            world.cluster.shake()


def _open_bids(world: World) -> list[OrderId]:
    """Orders with an open bid of this provider."""
    alive = {lease.order for lease in world.alive()}
    return sorted(order for order in world.living() if order not in alive)


def _schedule(world: World) -> None:
    """The cluster starts pods of one lease; the lease loop removes what has ended."""
    leases = sorted(world.alive())
    if leases:
        order = world.random.choice(leases).order
        reservation = world.ledger.reservation(order)
        if reservation is not None:
            world.cluster.schedule(order, reservation)


def _sweep(world: World) -> None:
    """The pods of an ended lease stay a while, then everything of it goes, and then the chain's node forgets it. A
    tenant without bids gives up.
    """
    for order in [order for order in world.ended_at if world.random.random() < 0.1]:
        world.cluster.end(order)
        if world.random.random() < 0.5 and order.bid_by(US) in world.chain.lease_states:
            world.ledger.release(order)
        bid = world.chain.bid_states.get(order.bid_by(US))
        settled = bid is None or bid.state is not BidState.OPEN
        if world.now - world.ended_at[order] > _FORGET_S and settled and world.ledger.reservation(order) is None:
            _forget(world, order)
    unheard = [one.id for one in world.chain.orders.values() if one.state is OrderState.OPEN]
    for order in unheard:
        if order.bid_by(US) not in world.chain.bid_states and world.random.random() < 0.08:
            world.chain.close_order(order)
            world.ended(order)


def _forget(world: World, order: OrderId) -> None:
    del world.ended_at[order]
    world.chain.orders.pop(order, None)
    for bid in [bid for bid in world.chain.bid_states if bid.order == order]:
        world.chain.lease_states.pop(bid, None)
        del world.chain.bid_states[bid]


async def _calm(world: World) -> None:
    """Without faults everything must agree with the chain within some full passes and the blocks that a bid without an
    answer may still get into.
    """
    world.chain.calm = True
    world.faults.stop()
    for _ in range(30):
        await asyncio.sleep(6)
        await world.block()
    world.check()
    found = set(world.forgotten())
    await asyncio.sleep(15)  # a bid that is just being closed has 15 s
    world.problems += sorted(found & set(world.forgotten()))
