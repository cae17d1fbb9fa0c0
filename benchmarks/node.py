"""What a real node costs: its start and stop, its memory, and how soon Lessor reports a failed container.

    python -m benchmarks.node [--rounds 3]    # as root; tables for people, last line one JSON object

The clock of `start_s` runs from nothing to the readiness of name service, edge and speaker on a Ready node, enclosure
and control plane included; that of `stop_s` from the request to the end of every process. `room_mb` is the memory of
the enclosure's cgroup without page cache, with one tenant's lease in it. `told_s` runs from the kubelet's first report
of a container that ended with an error to the lease state that says so, and is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from devnet.node import Enclosure, is_enclosed
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from devnet.world import ProviderProcess, World
from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import close, rent
from tests.whole.node.documents import small

__all__ = ["node_figures"]

_INSIDE = "--inside"


def node_figures(rounds: int = 3) -> dict[str, float]:
    """The four figures, of one enclosure that is started and stopped for it."""
    ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE])  # nothing can be downloaded inside
    with tempfile.TemporaryDirectory(prefix="lessor-benchmark-", ignore_cleanup_errors=True) as folder:
        began = time.perf_counter()
        enclosure = Enclosure.start(Path(folder) / "enclosure")
        made_s = time.perf_counter() - began
        argv = [sys.executable, "-m", "benchmarks.node", "--rounds", str(rounds), _INSIDE, folder]
        done = subprocess.run(enclosure.command(argv), stdout=subprocess.PIPE, text=True, check=False)
        began = time.perf_counter()
        enclosure.stop()
        stopped_s = time.perf_counter() - began
    done.check_returncode()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {
        "start_s": round(made_s + found["start_s"], 1),
        "stop_s": round(stopped_s + found["stop_s"], 1),
        "room_mb": round(found["room_mb"]),
        "told_s": round(found["told_s"], 2),
    }


async def _inside(folder: Path, rounds: int) -> dict[str, float]:
    began = time.perf_counter()
    async with _world(folder) as world:
        start_s = time.perf_counter() - began
        await world.apply_cluster_stack(lambda _: None)
        await world.register_provider()
        provider = await world.run_provider()
        delays = [await _report_delay_s(world, provider) for _ in range(rounds)]
        rented = await rent(world, small(web={}))
        await world.tenant.send_manifest(rented.lease, rented.sdl)
        await provider.wait_for("lease.state", lease=str(rented.lease), phase="running")
        room_mb = _room_mb()
        await world.stop_providers()
        began = time.perf_counter()
    return {
        "start_s": start_s,
        "stop_s": time.perf_counter() - began,
        "room_mb": room_mb,
        "told_s": statistics.median(delays),
    }


@asynccontextmanager
async def _world(folder: Path) -> AsyncIterator[World]:
    toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    async with World.start_real(folder / "world", toolbox) as world:
        yield world


def _crashing() -> Sdl:
    return small(web={"command": ["standin", "exit", "3"]})


async def _report_delay_s(world: World, provider: ProviderProcess) -> float:
    """Seconds from the kubelet's report of the first end to the state that tells of it."""
    rented = await rent(world, _crashing())
    watch = asyncio.create_task(_reported(world, namespace_name(rented.lease)))
    await world.tenant.send_manifest(rented.lease, rented.sdl)
    shown = await _first_report(provider, str(rented.lease))
    reported = await watch
    await close(world, provider, rented)
    return max(0.0, shown - reported)


async def _reported(world: World, namespace: str) -> float:
    """When the API server first said that a container of this namespace has ended."""
    kubectl = str(world.plane.toolbox.program("kubectl"))
    watch = await asyncio.create_subprocess_exec(
        *(kubectl, "--kubeconfig", str(world.plane.kubeconfig), "get", "pods", "-n", namespace, "--watch"),
        *("-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}{'\\n'}"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert watch.stdout is not None
    try:
        while line := await watch.stdout.readline():
            if line.strip() == b"3":
                return time.monotonic()
    finally:
        watch.kill()
        await watch.wait()
    raise RuntimeError("the watch on the pods has ended")


async def _first_report(provider: ProviderProcess, lease: str) -> float:
    heard = asyncio.get_running_loop().create_future()

    def listen(event: Mapping[str, object]) -> None:
        is_it = event.get("event") == "lease.state" and event.get("lease") == lease
        if is_it and "exit code 3" in str(event.get("reason")) and not heard.done():
            heard.set_result(time.monotonic())

    provider.listen = listen
    at: float = await asyncio.wait_for(heard, 120)
    return at


def _room_mb() -> float:
    """Anonymous memory of the enclosure's cgroup, this program included, in MB (10^6 bytes)."""
    lines = Path("/sys/fs/cgroup/memory/memory.stat").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("total_rss ")).split()[1]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(_INSIDE, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None and is_enclosed():
        print(json.dumps(asyncio.run(_inside(options.inside, options.rounds))))
        return
    figures = node_figures(options.rounds)
    for name, figure in figures.items():
        print(f"{name:12} {figure:>8}")
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
