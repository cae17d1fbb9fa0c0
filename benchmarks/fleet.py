"""A provider with a fleet of leases: its memory, its restart, and the first byte of each page of its dashboard.

    nice python -m benchmarks.fleet [--leases 300] [--restarts 2] [--calls 5]

The provider is `lessor run` on a control plane with simulated nodes and a simulated chain with blocks of 1 s. Groups of
20 leases are made one after the other. `daemon_mb_300_leases` is the daemon's resident memory when all of them run.
`restart_s_300_leases` runs from the start of the next process until its metrics call every lease running, which needs a
check of each one; `processes_started_at_restart` counts the programs that it has started until then, the resident
engine apart. `first_bid_s` runs from that start to a bid on an order that was opened before it, in the node's mempool.
`dashboard_ms` is the slowest page's median time to the first byte. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from yarl import URL

from benchmarks.serving import cpu_s, gateway_target, rent
from benchmarks.serving_client import Group, client
from devnet.controlplane import default_nodes
from devnet.demo.processes import programs_running
from devnet.tools import ensure_tools
from devnet.world import ProviderProcess, World
from devnet.world.world import free_port
from lease.ids import LeaseId, namespace_name
from lease.manifest_json import manifest_json
from tests.whole.node.documents import small

__all__ = ["fleet_figures"]

_GROUP = 20
_PODS_A_NODE = 80
_ENGINE = {"lessor-engine"}
_RUNNING = re.compile(rb'^lessor_leases\{phase="running"\} (\d+)', re.MULTILINE)


async def _fill(world: World, provider: ProviderProcess, *, leases: int) -> Sequence[LeaseId]:
    """That many running leases of one service each."""
    sdl, made = small(web={}), list[LeaseId]()
    while len(made) < leases:
        taken = await rent(world, sdl, min(_GROUP, leases - len(made)))
        puts = Group(
            "PUT", [f"/deployment/{lease.dseq}/manifest" for lease in taken], manifest_json(sdl.manifest), True
        )
        async with client(await gateway_target(world, connections=len(taken)), (puts,)) as tenant:
            await tenant.times_ms()
        for lease in taken:
            await provider.wait_for("lease.state", lease=str(lease), phase="running", seconds=300)
        made += taken
        print(f"{len(made)} leases, daemon {provider.resident_mb():.0f} MB, load {os.getloadavg()[0]:.1f}", flush=True)
    return made


async def _running(session: aiohttp.ClientSession, metrics: str) -> int:
    """How many leases the provider calls running; 0 while its metrics are not served."""
    try:
        async with session.get(f"http://{metrics}/metrics") as answer:
            found = _RUNNING.search(await answer.read())
    except aiohttp.ClientError:
        return 0
    return int(found[1]) if found else 0


async def _restart(world: World, *, leases: int, metrics: str) -> tuple[ProviderProcess, dict[str, float]]:
    """Stop the provider and start it with an open order: the new process and its figures."""
    await world.stop_providers()
    deployment = await world.tenant.publish(small(web={}))
    began = time.perf_counter()
    bid = asyncio.create_task(_first_bid(world, began))
    before = len(world._providers)
    starting = asyncio.create_task(world.run_provider(AP_METRICS_LISTENER=metrics))
    while len(world._providers) == before:
        await asyncio.sleep(0.002)
    pid, programs = world._providers[-1].pid, set[str]()
    async with aiohttp.ClientSession() as session:
        while await _running(session, metrics) < leases:
            programs |= programs_running(pid) - _ENGINE
            await asyncio.sleep(0.02)
    figures = {"restart": time.perf_counter() - began, "cpu": cpu_s(pid), "bid": await bid, "programs": len(programs)}
    print(f"restart: {figures}, {sorted(programs)}, load {os.getloadavg()[0]:.1f}", flush=True)
    await world.tenant.close_deployment(deployment)
    return await starting, figures


async def _first_bid(world: World, began: float) -> float:
    """Seconds from `began` until a transaction is in the node's mempool: the bid on the open order."""
    while not world.chain.node.pending:
        await asyncio.sleep(0.002)
    return time.perf_counter() - began


async def _pages_ms(world: World, leases: Sequence[LeaseId], *, calls: int) -> dict[str, float]:
    """The median time to the first byte of each page of the dashboard, in milliseconds."""
    link = (world.data / "provider" / "dashboard.link").read_text().strip()
    base = URL(link).origin()
    names = (
        "",
        "leases",
        f"leases/{namespace_name(leases[0])}",
        "orders",
        "inventory",
        "addresses",
        "money",
        "policies",
    )
    found: dict[str, float] = {}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(link) as answer:
            answer.raise_for_status()
        for page in (f"/{name}" for name in names):
            times = []
            for _ in range(calls):
                began = time.perf_counter()
                async with session.get(base.with_path(page)) as answer:
                    answer.raise_for_status()
                    times.append((time.perf_counter() - began) * 1000)
                    await answer.read()
            found[page] = statistics.median(times)
    print("; ".join(f"{page.partition('-')[0]} {value:.0f} ms" for page, value in found.items()), flush=True)
    return found


async def fleet_figures(*, leases: int, restarts: int, calls: int) -> dict[str, float]:
    nodes = default_nodes(leases // _PODS_A_NODE + 2)
    with tempfile.TemporaryDirectory(prefix="lessor-benchmark-", ignore_cleanup_errors=True) as folder:
        async with World.start(Path(folder), ensure_tools(build=False), block_seconds=1.0, nodes=nodes) as world:
            await world.apply_cluster_stack(lambda _: None)
            await world.register_provider()
            metrics = f"127.0.0.1:{free_port()}"
            provider = await world.run_provider(AP_METRICS_LISTENER=metrics)
            made = await _fill(world, provider, leases=leases)
            full_mb, found = provider.resident_mb(), []
            for _ in range(restarts):
                provider, figures = await _restart(world, leases=leases, metrics=metrics)
                found.append(figures)
            pages = await _pages_ms(world, made, calls=calls)
            restarted_mb = provider.resident_mb()
    median = {name: statistics.median(each[name] for each in found) for name in found[0]}
    return {
        "leases": leases,
        f"daemon_mb_{leases}_leases": round(full_mb),
        "daemon_mb_after_restart": round(restarted_mb),
        f"restart_s_{leases}_leases": round(median["restart"], 1),
        "restart_cpu_s": round(median["cpu"], 1),
        "processes_started_at_restart": max(each["programs"] for each in found),
        "first_bid_s": round(median["bid"], 2),
        "dashboard_ms": round(max(pages.values())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--leases", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--calls", type=int, default=5)
    options = parser.parse_args()
    figures = asyncio.run(fleet_figures(leases=options.leases, restarts=options.restarts, calls=options.calls))
    for name, figure in figures.items():
        print(f"{name:30} {figure:>8}")
    print(json.dumps(figures | {"load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
