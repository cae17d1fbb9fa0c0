"""The market's speed: from an order's block to its bid in the mempool and in a block; decisions, follower, memory.

    python -m benchmarks.market [--rounds 10] [--orders 20] [--block-seconds 1] [--only bids]

A tenant makes orders on a simulated chain in a separate process. Provider, store (SQLite on disk, synced at every
commit) and price table are those of the daemon; only the cluster is simulated. A bid counts as broadcast when the node
has accepted it. Three ways to send are compared: shared transactions (the default), one transaction a bid with
consecutive pending sequences, and one after another as the Go provider sends them. The last line is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from akash.market.v1beta5.msg_pb2 import MsgCreateBid
from cosmos.tx.v1beta1.tx_pb2 import TxBody, TxRaw

from devnet.chain import TEST_MNEMONIC
from devnet.tenant import messages as tenant_messages
from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import DeploymentId, OrderId
from lease.resources import Attribute, Price, Resources, Volume
from provider.bus import CHAIN_BLOCK, MemoryBus
from provider.chain import messages
from provider.chain.comet import CometChain
from provider.chain.keys import SigningKey, key_from_mnemonic
from provider.daemon.pump import pump_blocks
from provider.inventory.capacity import Capacity
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory, Node
from provider.market.book import Market
from provider.market.loop import run_market
from provider.market.pricing.strategy import pricing_from
from provider.market.rules import rules_from
from provider.protocols.bus import Topic
from provider.protocols.chain import BidState, Block
from provider.protocols.clock import SystemClock
from provider.settings import Settings
from provider.store import open_database
from provider.store.transactions import StoredJournal

__all__ = ["bid_figures"]

TENANT, PROVIDER = 1, 2
PRICES = "cpu: 1.60\nmemory: 0.80\nstorage: {ephemeral: 0.02, default: 0}\nendpoint: 0.05\nip: 5\n"
ATTRIBUTES = (Attribute("region", "us-west"),)
ROOM = Inventory(nodes=tuple(Node(f"n{i}", Capacity(10**7, 2**44, 2**46, 10**5)) for i in range(20)), address_count=40)
MODES = ("batch", "sequences", "single")


@dataclass
class Watch:
    """When each order's block was seen, when the node took its bid: seconds of the clock, and of this process's CPU.

    The second says what the first would be on a machine that does nothing else, less what the node takes.
    """

    seen: dict[int, tuple[float, float]] = field(default_factory=dict)
    taken: dict[int, tuple[float, float]] = field(default_factory=dict)
    transactions: int = 0

    def times(self, which: int) -> list[float]:
        """Milliseconds from block to mempool, shortest first; `which` 0: of the clock, 1: of the CPU."""
        both = ((self.taken[dseq], at) for dseq, at in self.seen.items() if dseq in self.taken)
        return sorted(1000 * (end[which] - start[which]) for end, start in both)

    def of_block(self, block: Block) -> None:
        now = (time.perf_counter(), time.process_time())
        for event in block.events:
            if event.type.endswith("EventOrderCreated"):
                self.seen[int(event.fields["id"]["dseq"])] = now

    def of_transaction(self, raw: bytes) -> None:
        now = (time.perf_counter(), time.process_time())
        self.transactions += 1
        for packed in TxBody.FromString(TxRaw.FromString(raw).body_bytes).messages:
            if packed.type_url.endswith(".MsgCreateBid"):
                self.taken.setdefault(MsgCreateBid.FromString(packed.value).id.dseq, now)


_T = TypeVar("_T")


class WatchedBus(MemoryBus):
    """Records the time at which a block is passed on."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def publish(self, topic: Topic[_T], value: _T, *, retain: bool = False) -> None:
        if topic == CHAIN_BLOCK and isinstance(value, Block):
            self._watch.of_block(value)
        super().publish(topic, value, retain=retain)


@asynccontextmanager
async def chain_process(block_seconds: float) -> AsyncIterator[str]:
    """The RPC address of a simulated chain in another process."""
    command = [sys.executable, "-m", "devnet.chain", "--rpc-port", "0", "--grpc-port", "0"]
    command += ["--block-seconds", str(block_seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220  at the start only
    assert child.stdout is not None
    try:
        ready = json.loads(await asyncio.to_thread(child.stdout.readline))
        yield ready["rpc"]
    finally:
        child.terminate()
        await asyncio.to_thread(child.wait)
        child.stdout.close()


def key(index: int) -> SigningKey:
    return key_from_mnemonic(TEST_MNEMONIC, index=index)


def watched(chain: CometChain, watch: Watch) -> None:
    """Records the time at which the node has accepted a transaction."""
    ask = chain._rpc.call

    async def call(method: str, **params: Any) -> dict[str, Any]:
        answer = await ask(method, **params)
        if method == "broadcast_tx_sync" and not answer.get("code"):
            watch.of_transaction(base64.b64decode(params["tx"]))
        return answer

    chain._rpc.call = call  # type: ignore[method-assign]


@asynccontextmanager
async def provider(settings: Settings, watch: Watch) -> AsyncIterator[CometChain]:
    """The follower and the market as in the daemon, ready for orders."""
    us, clock, bus = key(PROVIDER), SystemClock(), WatchedBus(watch)
    database = await open_database(settings.database_url)
    async with CometChain(settings, clock=clock, key=us, journal=StoredJournal(database)) as chain:
        watched(chain, watch)
        if await chain.provider(us.address) is None:
            uri = "https://provider.example.com:8443"
            await chain.broadcast([messages.create_provider(us.address, host_uri=uri, attributes=ATTRIBUTES)])
        market = Market(
            provider=us.address,
            chain=chain,
            bus=bus,
            clock=clock,
            ledger=Ledger(us.address),
            inventory=lambda: ROOM,
            database=database,
            rules=rules_from(settings),
            pricing=pricing_from(settings, now=clock.now),
            deposit=settings.bid_deposit,
        )
        tasks = [asyncio.create_task(run_market(market))]
        tasks.append(asyncio.create_task(pump_blocks(chain, bus, database=database, clock=clock)))
        try:
            yield chain
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    await database.close()


def spec() -> GroupSpec:
    resources = Resources(1, 100, 128 * 2**20, (Volume("default", 512 * 2**20),))
    return GroupSpec("g", Requirements(), (ResourceUnit(resources, 1, Price("uact", Decimal(10000))),))


async def publish(tenant: CometChain, owner: str, dseqs: range) -> None:
    deposit = (5_000_000, "uact")
    made = [
        tenant_messages.create_deployment(
            DeploymentId(owner, dseq), groups=(spec(),), version=bytes(32), deposit=deposit
        )
        for dseq in dseqs
    ]
    await tenant.broadcast(made)


async def one_round(us: CometChain, tenant: CometChain, dseqs: range) -> int:
    """The number of blocks from that of the orders to that of the last bid."""
    owner, address = key(TENANT).address, key(PROVIDER).address
    await publish(tenant, owner, dseqs)
    orders = [OrderId(owner, dseq, 1, 1) for dseq in dseqs]
    async with asyncio.timeout(120):
        while True:
            found = {bid.id.dseq: bid for bid in await us.bids(address, BidState.OPEN)}
            if all(dseq in found for dseq in dseqs):
                break
            await asyncio.sleep(0.1)
    made = [await us.order(order) for order in orders[:1]]
    assert made[0] is not None
    return max(found[dseq].created_at for dseq in dseqs) - made[0].created_at


def settings_for(address: str, home: Path, mode: str) -> Settings:
    table = home / "prices.yaml"
    table.write_text(PRICES)
    return Settings(
        node=address, home=home, bid_price_strategy="table", price_table=table, tx_mode=mode, market_interval=3600
    )


async def run_mode(mode: str, *, rounds: int, orders: int, block_seconds: float) -> dict[str, Any]:
    """One way to send: milliseconds from block to mempool, blocks until all bids of a block are in one."""
    watch, blocks = Watch(), []
    with tempfile.TemporaryDirectory() as folder:
        async with chain_process(block_seconds) as address:
            settings = settings_for(address, Path(folder), mode)
            clock = SystemClock()
            async with (
                provider(settings, watch) as us,
                CometChain(Settings(node=address), clock=clock, key=key(TENANT)) as tenant,
            ):
                await one_round(us, tenant, range(1, 3))  # the first block warms caches
                watch.seen.clear()
                watch.transactions = 0
                for number in range(1, rounds + 1):
                    start = 1000 * number
                    blocks.append(await one_round(us, tenant, range(start, start + orders)))
            fees = await fees_of(settings)
    return {
        "ms": watch.times(0),
        "cpu_ms": watch.times(1),
        "blocks": blocks,
        "fee": fees / (rounds * orders),
        "transactions": watch.transactions / rounds,
    }


async def fees_of(settings: Settings) -> float:
    """The cost of the provider's transactions in micro-AKT, without its registration."""
    database = await open_database(settings.database_url)
    try:
        account = f"lessor-devnet/{key(PROVIDER).address}"
        paid = await StoredJournal(database).fees(account, denom="uakt", since=0)
        return float(sum(fee for _, fee in paid[1:]))
    finally:
        await database.close()


def p99(ordered: list[float]) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def bid_figures(*, rounds: int = 10, orders: int = 20, block_seconds: float = 1.0) -> dict[str, Any]:
    """All three ways; the figures of the JSON line are those of the default one."""
    load = os.getloadavg()[0]
    print(f"order to bid, {rounds} blocks of {orders} orders, a block every {block_seconds:g} s, load {load:.1f}\n")
    print(
        "| sending | median ms | p99 ms | CPU ms, median | p99 | blocks until all are in | transactions | uakt a bid |"
    )
    print("|---|---|---|---|---|---|---|---|")
    figures: dict[str, Any] = {}
    for mode in MODES:
        few = min(rounds, 2) if mode == "single" else rounds
        found = asyncio.run(run_mode(mode, rounds=few, orders=orders, block_seconds=block_seconds))
        blocks, cells = found["blocks"], [mode]
        for name in ("ms", "cpu_ms"):
            cells += [f"{statistics.median(found[name]):.0f}", f"{p99(found[name]):.0f}"]
        cells.append(f"{min(blocks)} to {max(blocks)}, median {statistics.median(blocks):g}")
        cells += [f"{found['transactions']:.1f}", f"{found['fee']:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        if mode == "batch":
            figures = {
                "order_to_bid_ms_median": round(statistics.median(found["ms"]), 1),
                "order_to_bid_ms_p99": round(p99(found["ms"]), 1),
                "order_to_bid_cpu_ms_median": round(statistics.median(found["cpu_ms"]), 1),
                "order_to_bid_cpu_ms_p99": round(p99(found["cpu_ms"]), 1),
                "blocks_for_20_bids": max(blocks),
            }
    return figures


def others() -> dict[str, Any]:
    """The figures of the decisions and of the follower, if those benchmarks exist."""
    figures: dict[str, Any] = {}
    for module, name in (("market_decide", "decide_figures"), ("market_follower", "follower_figures")):
        with contextlib.suppress(ModuleNotFoundError):
            figures |= getattr(importlib.import_module(f"benchmarks.{module}"), name)()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--block-seconds", type=float, default=1.0)
    parser.add_argument("--only", choices=("bids", "others"))
    options = parser.parse_args()
    figures: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    if options.only != "others":
        figures |= bid_figures(rounds=options.rounds, orders=options.orders, block_seconds=options.block_seconds)
    if options.only != "bids":
        figures |= others()
    print()
    print(json.dumps(figures))


if __name__ == "__main__":
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    main()
