"""The time from the start of the market and the follower to the first bid on an order that was made before the start.

    python -m benchmarks.market_start [--rounds 7]

The clock starts before the chain client and the database are opened and stops when the bid is in the node's mempool;
the time of Python to load the program is extra and is printed too. The last line is one JSON object.
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
from pathlib import Path

from devnet.chain import SimulatedChain
from provider.chain import messages
from tests.provider.chain.world import ATTRIBUTES, PROVIDER, TENANT, client
from tests.provider.market.test_on_simulated_chain import US, provider, publish

__all__ = ["start_figures"]


async def start(chain: SimulatedChain, folder: Path, dseq: int) -> float:
    """Milliseconds."""
    async with client(chain.rpc_address, index=TENANT) as tenant:
        await publish(tenant, dseq)
    began = time.perf_counter()
    async with client(chain.rpc_address, index=PROVIDER) as us, provider(us, folder):
        while not chain.node.pending:
            await asyncio.sleep(0.001)
        taken = (time.perf_counter() - began) * 1000
        await chain.wait_blocks(1)
    return taken


async def starts(rounds: int) -> list[float]:
    async with SimulatedChain.start(block_seconds=1.0) as chain:
        async with client(chain.rpc_address, index=PROVIDER) as us:
            uri = "https://provider.example.com:8443"
            await us.broadcast([messages.create_provider(US, host_uri=uri, attributes=ATTRIBUTES)])
        with tempfile.TemporaryDirectory() as folder:  # the database of the last run, as after a restart
            return [await start(chain, Path(folder), dseq) for dseq in range(1, rounds + 1)]


def loading() -> float:
    """Milliseconds that a new Python process needs to import the daemon."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import provider.daemon.app"], check=True)
    return (time.perf_counter() - began) * 1000


def start_figures(rounds: int = 7) -> dict[str, float]:
    """`start_to_first_bid_ms`: median; the first of the rounds, with a new database, by itself."""
    first, *others = asyncio.run(starts(rounds))
    return {
        "start_to_first_bid_ms": round(statistics.median(others)),
        "start_to_first_bid_ms_new_database": round(first),
        "loading_ms": round(min(loading() for _ in range(3))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    figures = start_figures(parser.parse_args().rounds)
    for name, figure in figures.items():
        print(f"{name:36} {figure:>8}")
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
