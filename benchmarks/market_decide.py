"""The speed of the market's decisions, and the growth of memory and disk after a hundred thousand orders.

    python -m benchmarks.market_decide            # prints tables; the last line is a JSON object

`decide()` with placement runs on 1,000 nodes of which half have eight cards, over a mix of orders that fit and that do
not; the figure of the mix is that of the last of four passes, which finds all values that are computed
once. Memory is the growth of the process after these orders were seen, decided and closed, with a real store that is
pruned as usual.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Price, Resources, Volume
from provider.inventory.capacity import Capacity, Card
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, Node
from provider.market.decision import BidDecision, Decision, DecisionInputs, Rules, decide
from provider.market.pricing.scale import ScalePrices
from provider.market.record.log import DecisionLog
from provider.protocols.chain import Order, OrderState, ProviderRecord
from provider.store import open_database

__all__ = ["decide_figures", "disk_bytes_per_order"]

_US, _GIB = "akash1" + "p" * 38, 2**30
_KINDS = tuple(
    Card(*kind)
    for kind in (("nvidia", "a100", "80Gi", "sxm"), ("nvidia", "h100", "80Gi", "sxm"), ("nvidia", "t4", "16Gi", "pcie"))
)
_RECORD = ProviderRecord(
    _US, "https://p:8443", (Attribute("region", "eu"), Attribute("capabilities/gpu/vendor/nvidia/model/*", "true"))
)
_RULES = Rules(ScalePrices(cpu=Decimal("0.01"), storage={"ephemeral": Decimal(0)}))
_BLOCK = 50
_ANY = "vendor/nvidia/model/*"


def decide_figures(*, orders: int = 100_000) -> dict[str, float]:
    """`decisions_per_s_1000_nodes` (a core, of the mix) and `growth_mb_100k_orders` (scaled for fewer orders)."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return {
        "decisions_per_s_1000_nodes": round(_mix_rate(_inventory(1000)), 1),
        "growth_mb_100k_orders": round(asyncio.run(_growth_mb(orders)) * 100_000 / orders, 1),
    }


def _inventory(count: int) -> Inventory:
    room = Capacity(64_000, 256 * _GIB, 1024 * _GIB, 110)
    nodes = (Node(f"n{at:05}", room, (_KINDS[at // 2 % 3],) * 8 if at % 2 else (), ("beta2",)) for at in range(count))
    return Inventory(nodes=tuple(nodes), pool_bytes={"beta2": 10**15}, address_count=10)


def _unit(cpu: int, *, count: int = 1, gpus: int = 0, key: str = _ANY, ident: int = 1) -> ResourceUnit:
    cards = (Attribute(key, "true"),) if gpus else ()
    resources = Resources(ident, cpu, _GIB, (Volume("default", _GIB),), gpu_units=gpus, gpu_attributes=cards)
    return ResourceUnit(resources, count, Price("uact", Decimal(10**6)))


def _order(*units: ResourceUnit, dseq: int = 1) -> Order:
    return Order(OrderId("akash1" + "q" * 38, dseq, 1, 1), OrderState.OPEN, GroupSpec("g", Requirements(), units), 1)


_MIX = {
    "plain": _order(_unit(1000)),
    "three replicas": _order(_unit(4000, count=3)),
    "any card": _order(_unit(1000, count=2, gpus=4)),
    "a100": _order(_unit(1000, gpus=8, key="vendor/nvidia/model/a100")),
    "two units": _order(_unit(1000, gpus=1), _unit(2000, count=2, ident=2)),
    "declined: cpu": _order(_unit(65_000)),
    "declined: nine cards": _order(_unit(1000, gpus=9)),
    "declined: no such card": _order(_unit(1000, gpus=1, key="vendor/nvidia/model/l40")),
    "declined: two units": _order(_unit(1000, gpus=9), _unit(65_000, ident=2)),
    "declined: price": _order(replace(_unit(1000), price=Price("uact", Decimal(1)))),
}


def _rate(inventory: Inventory, order: Order, seconds: float) -> float:
    free, count = Ledger(_US).free(inventory), 0
    _decided(free, order)
    start = time.process_time()
    while (used := time.process_time() - start) < seconds:
        _decided(free, order)
        count += 1
    return count / used


def _decided(free: Any, order: Order) -> Decision:
    return decide(DecisionInputs(order, _RECORD, snapshot=free, rules=_RULES, audits={}))


def _mix_rate(inventory: Inventory, *, passes: int = 4) -> float:
    """Decide every order of the mix once a pass, over an inventory that the last bid has changed."""
    ledger, best = Ledger(_US), 0.0
    for number in range(passes):
        start = time.process_time()
        for at, order in enumerate(_MIX.values()):
            mine = replace(order, id=replace(order.id, dseq=1 + number * len(_MIX) + at))
            found = _decided(ledger.free(inventory), mine)
            if isinstance(found, BidDecision):
                ledger.reserve(found.reservation)
        best = max(best, len(_MIX) / (time.process_time() - start))
    return best


def _mix_ms(nodes: int) -> float:
    return 1e3 / _mix_rate(_inventory(nodes))


def _resident_mb() -> float:
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _growth_mb(orders: int) -> float:
    """Through the market loop's own functions over a fake chain: each order is seen, decided, bid on, and closed."""
    from tests.provider.market.world import RECORD, US, make_inventory, make_world  # noqa: PLC0415
    from tests.world.chain import FakeChain  # noqa: PLC0415  a benchmark of the checkout

    with tempfile.TemporaryDirectory() as folder:
        database = await open_database(f"sqlite+aiosqlite:///{folder}/market.db")
        chain = FakeChain()
        chain.providers[US] = RECORD
        world = make_world(database, chain=chain, inventory=make_inventory(cpu=4000, nodes=20))
        warm = max(1000, orders // 20)
        await _see(world, 1, warm)
        before = _resident_mb()
        await _see(world, warm, warm + orders)
        grown = _resident_mb() - before
        await database.close()
    return max(0.0, grown)


async def _see(world: Any, first: int, last: int) -> None:
    """Fifty orders a block; three in four fit."""
    for start in range(first, last, _BLOCK):
        await asyncio.gather(*(_one(world, dseq) for dseq in range(start, min(start + _BLOCK, last))))
        # the memory of the fake chain does not count
        for memory in (world.chain.orders, world.chain.bid_states):
            memory.clear()
        for log in (world.chain.sent, world.chain.calls, world.chain.pending, world.bus.published):
            log.clear()
        if start % 1000 < _BLOCK:
            world.market.book.keep_only(set(), now=world.clock.now() + 7200)
            await world.market.log.prune(now=world.clock.now(), keep=1000, age_s=1e9)


async def _one(world: Any, dseq: int) -> None:
    from provider.market.bid_end import end_bid  # noqa: PLC0415
    from provider.market.bidding import consider  # noqa: PLC0415
    from tests.provider.market.world import make_order  # noqa: PLC0415

    order = make_order(dseq, cpu=1000 if dseq % 4 else 90_000)
    world.chain.orders[order.id] = order
    await consider(world.market, order)
    world.market.book.forget_order(order.id)
    await end_bid(world.market, order.id, "the order was closed")


async def disk_bytes_per_order(orders: int = 10_000) -> float:
    """Every order differs; three in four are bid on and closed again; 200 nodes; an hour has two hundred orders, fifty
    come at a time.
    """
    with tempfile.TemporaryDirectory() as folder:
        database = await open_database(f"sqlite+aiosqlite:///{folder}/market.db")
        log, ledger, inventory = DecisionLog(database), Ledger(_US), _inventory(200)
        for first in range(1, orders + 1, 50):
            numbers = range(first, first + 50)
            await asyncio.gather(*(_kept(log, ledger, inventory, dseq) for dseq in numbers))
            for dseq in numbers:
                ledger.release(_varied(dseq).id)
        await database.close()
        return sum(path.stat().st_size for path in Path(folder).iterdir()) / orders


def _varied(dseq: int) -> Order:
    unit = _unit(1000 + dseq % 977 if dseq % 4 else 90_000, count=1 + dseq % 3)
    return _order(replace(unit, price=Price("uact", Decimal(100_000 + dseq))), dseq=10**7 + dseq)


async def _kept(log: DecisionLog, ledger: Ledger, inventory: Inventory, dseq: int) -> None:
    order, free = _varied(dseq), ledger.free(inventory)
    found = decide(DecisionInputs(order, _RECORD, snapshot=free, rules=_RULES, audits={}))
    if isinstance(found, BidDecision):
        ledger.reserve(found.reservation)
    await log.record(DecisionInputs(order, _RECORD, free, _RULES, {}), found, now=dseq * 18.0)


def _table(title: str, rows: Mapping[str, Callable[[], float]], unit: str) -> None:
    print(title)
    for name, measure in rows.items():
        print(f"  {name:28} {measure():10.1f} {unit}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000, help="seen for the growth of memory")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    thousand = _inventory(1000)
    load = os.getloadavg()[0]
    rates = {name: partial(_rate, thousand, order, 0.3) for name, order in _MIX.items()}
    _table("decide() on 1,000 nodes", rates, "/s")
    growth = {f"{count} nodes": partial(_mix_ms, count) for count in (250, 500, 1000, 2000, 4000)}
    _table("time of the mix, mean of an order", growth, "ms")
    _table("disk", {"an order": lambda: asyncio.run(disk_bytes_per_order())}, "bytes")
    print(f"load average {load:.1f}")
    print(json.dumps(decide_figures(orders=chosen.orders)))


if __name__ == "__main__":
    main()
