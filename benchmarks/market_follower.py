"""The follower with a node in another process that serves recorded blocks: how fast it catches up, whether it keeps up
with ten blocks a second, and how much memory it uses.

    python -m benchmarks.market_follower [--blocks 10000] [--seconds 20]

Blocks are those of the recordings (tests/data): `recorded` has all of them in turn, `full` only the one with the
most events (200 of Akash, 727 in all). The node is a separate process; the pump writes heights to SQLite
as the daemon does. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from provider.bus import CHAIN_BLOCK, MemoryBus
from provider.chain.comet import CometChain
from provider.daemon.pump import pump_blocks
from provider.protocols.chain import Block
from provider.protocols.clock import SystemClock
from provider.settings import Settings
from provider.store import Database, open_database
from provider.store.cursors import save_cursor
from tests.data import rows as recorded_rows

__all__ = ["follower_figures"]

CHAIN = "local"


class ReplayedNode:
    """Serves CometBFT's /status, block_results, and headers on the websocket."""

    def __init__(self, blocks: list[bytes], *, height: int) -> None:
        self.blocks, self.height = blocks, height
        self.sockets: list[web.WebSocketResponse] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/", self.answer)
        app.router.add_get("/websocket", self.listen)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        question = await request.json()
        if question["method"] == "status":
            return web.json_response({"jsonrpc": "2.0", "id": question["id"], "result": self.status()})
        height = int(question["params"]["height"])
        body = self.blocks[height % len(self.blocks)]
        return web.Response(body=b'{"jsonrpc":"2.0","id":1,"result":{"height":"%d",' % height + body)

    def status(self) -> dict[str, Any]:
        sync = {"latest_block_height": str(self.height), "latest_block_time": stamp(), "catching_up": False}
        return {"node_info": {"network": CHAIN}, "sync_info": {**sync, "earliest_block_height": "1"}}

    async def listen(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        async for _ in socket:
            await socket.send_json({"jsonrpc": "2.0", "id": "lessor", "result": {}})
        self.sockets.remove(socket)
        return socket

    async def make_blocks(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.height += 1
            header = {"chain_id": CHAIN, "height": str(self.height), "time": stamp()}
            frame = {"id": "lessor", "result": {"data": {"value": {"header": header}}}}
            for socket in self.sockets:
                await socket.send_json(frame)


def stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}Z"


def recorded(kind: str) -> list[bytes]:
    """The rest of each block's answer, after its height."""
    rows = list(recorded_rows("recordings/chain/blocks.jsonl"))
    if kind == "full":
        rows = [max(rows, key=lambda row: sum(len(tx["events"] or ()) for tx in row["txs"]))]
    return [_rest(row) for row in rows]


def _rest(row: dict[str, Any]) -> bytes:
    dropped = ("bytes", "step", "label", "signer", "hash")
    txs = [{name: value for name, value in tx.items() if name not in dropped} for tx in row["txs"]]
    rest = {"txs_results": txs or None, "finalize_block_events": row.get("finalize_block_events") or []}
    return json.dumps(rest, separators=(",", ":")).encode()[1:] + b"}"


async def serve(kind: str, height: int, seconds: float) -> None:
    node = ReplayedNode(recorded(kind), height=height)
    runner = web.AppRunner(node.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await (node.make_blocks(seconds) if seconds else asyncio.Event().wait())


@asynccontextmanager
async def replayed(kind: str, *, height: int, seconds: float = 0.0) -> AsyncIterator[str]:
    argv = (sys.executable, "-m", "benchmarks.market_follower", "--serve", kind, str(height), str(seconds))
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{(await process.stdout.readline()).decode().strip()}"
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def pumping(address: str, database: Database) -> AsyncIterator[AsyncIterator[object]]:
    """The blocks that a subscriber of the bus receives."""
    bus, clock = MemoryBus(), SystemClock()
    async with CometChain(Settings(node=address), clock=clock) as chain, bus.subscribe(CHAIN_BLOCK) as blocks:
        task = asyncio.create_task(pump_blocks(chain, bus, database=database, clock=clock))
        try:
            yield blocks
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True)
class CaughtUp:
    """`seconds` from the start of the follower until it handed on the last block; `cpu` seconds are its own, without
    the node's.
    """

    blocks: int
    seconds: float
    cpu: float
    events: int


async def catch_up(kind: str, blocks: int) -> CaughtUp:
    """Until the last of so many `blocks`, each the one after the last."""
    with tempfile.TemporaryDirectory() as folder:
        database = await open_database(f"sqlite+aiosqlite:///{folder}/x.db")
        await save_cursor(database, CHAIN, height=1, now=0.0)
        events, expected = 0, itertools.count(2)
        async with replayed(kind, height=blocks + 1) as address, pumping(address, database) as found:
            started, cpu = time.perf_counter(), time.process_time()
            async for block in found:
                assert isinstance(block, Block)
                assert (block.height, block.missed_from) == (next(expected), 0)
                events += len(block.events)
                if block.height == blocks + 1:
                    break
            taken, spent = time.perf_counter() - started, time.process_time() - cpu
        await database.close()
    return CaughtUp(blocks, taken, spent, events)


async def keep_up(seconds: float) -> dict[str, float]:
    """Ten full blocks a second: how late each is passed on (ms after its due time), and CPU a block."""
    with tempfile.TemporaryDirectory() as folder:
        database = await open_database(f"sqlite+aiosqlite:///{folder}/x.db")
        times: list[tuple[int, float]] = []
        async with replayed("full", height=1, seconds=0.1) as address, pumping(address, database) as found:
            cpu, end = time.process_time(), time.perf_counter() + seconds
            async for block in found:
                assert isinstance(block, Block)
                assert not times or block.height == times[-1][0] + 1
                times.append((block.height, time.perf_counter()))
                if times[-1][1] > end:
                    break
            spent = time.process_time() - cpu
        await database.close()
    gaps = [(later - earlier) * 1000 for (_, earlier), (_, later) in itertools.pairwise(times)]
    rate = (len(times) - 1) / (times[-1][1] - times[0][1])
    return {"rate": rate, "longest_gap_ms": max(gaps), "gap_ms": statistics.median(gaps), "cpu": spent / len(times)}


def follower_figures(blocks: int = 10_000, seconds: float = 15.0) -> dict[str, float]:
    """`blocks_per_s` that it could follow (blocks of 200 events, one core), `catch_up_s_10000_blocks` (recorded blocks
    in turn; scaled when `blocks` is less), the same for full ones, and megabytes it grew while catching up.
    """
    before = resident()
    full = asyncio.run(catch_up("full", max(200, blocks // 4)))
    first = resident()
    mixed = asyncio.run(catch_up("recorded", blocks))
    gc.collect()
    grown = resident() - first
    kept = asyncio.run(keep_up(seconds))
    return {
        "blocks_per_s": round(full.blocks / full.seconds, 1),
        "catch_up_s_10000_blocks": round(mixed.seconds * 10_000 / mixed.blocks, 1),
        "catch_up_s_10000_full_blocks": round(full.seconds * 10_000 / full.blocks, 1),
        "catch_up_cpu_ms_per_block": round(mixed.cpu / mixed.blocks * 1000, 2),
        "catch_up_cpu_ms_per_full_block": round(full.cpu / full.blocks * 1000, 2),
        "events_per_block": round(mixed.events / mixed.blocks, 1),
        "events_per_full_block": round(full.events / full.blocks, 1),
        "kept_blocks_per_s": round(kept["rate"], 2),
        "kept_longest_gap_ms": round(kept["longest_gap_ms"], 1),
        "kept_cpu_ms_per_block": round(kept["cpu"] * 1000, 2),
        "grown_mb_first": round(first - before, 1),
        "grown_mb_then": round(grown, 1),
    }


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "HEIGHT", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        kind, height, seconds = options.serve
        asyncio.run(serve(kind, int(height), float(seconds)))
        return
    figures = follower_figures(options.blocks, options.seconds)
    for name, figure in figures.items():
        print(f"{name:32} {figure:>10}")
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
