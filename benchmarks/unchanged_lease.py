"""The cost of an unchanged lease in the lease loop: a start with 500 of them on a scripted chain, cluster and engine.

    python -m benchmarks.unchanged_lease [--leases 500]

No operation of the engine and so no process runs. CPU milliseconds a lease until all are checked, with the lists of the
scripted cluster; the answers of a real cluster must be parsed too. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from contextlib import suppress

from provider.lifecycle.state import Phase
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.virtual import run_virtual

__all__ = ["unchanged_ms"]


def unchanged_ms(leases: int = 500) -> float:
    """CPU milliseconds a lease, in a loop of its own. Raises `SystemExit` if any operation ran."""
    return run_virtual(_measured(leases))


async def _measured(leases: int) -> float:
    world = await _running(leases)
    began = time.process_time()
    task = asyncio.create_task(world.loop.run())
    async with asyncio.timeout(300):
        while sum(status.phase is Phase.RUNNING for status in world.loop.statuses.values()) < leases:
            await asyncio.sleep(0.02)
    spent = time.process_time() - began
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    if world.engine.calls:
        raise SystemExit(f"{len(world.engine.calls)} operations, though nothing had changed")
    return round(1000 * spent / leases, 3)


async def _running(leases: int) -> World:
    """A provider that has just started over leases that run."""
    world = World(resync_s=300)
    for dseq in range(1, leases + 1):
        await world.run(a_lease(dseq), a_group(hosts=(f"{dseq}.example.com",)))
    world.restart()
    world.engine.calls.clear()
    return world


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--leases", type=int, default=500)
    taken = unchanged_ms(parser.parse_args().leases)
    print(json.dumps({"unchanged_ms": taken, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
