"""`python -m devnet.chain` runs the simulated chain as a separate process on loopback, which ends with its parent."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from devnet.chain.genesis import devnet_genesis
from devnet.chain.simulation import SimulatedChain

_PR_SET_PDEATHSIG = 1
_PARENT_CHECK_S = 1.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devnet.chain", description=__doc__)
    parser.add_argument("--rpc-port", type=int, default=26657, help="0 picks a free one")
    parser.add_argument("--grpc-port", type=int, default=9090, help="0 picks a free one")
    parser.add_argument("--data", type=Path, help="folder that keeps the blocks; without it they live in memory")
    parser.add_argument("--chain-id", default="lessor-devnet")
    parser.add_argument("--block-seconds", type=float, default=0.5)
    return parser.parse_args()


def _end_with_parent() -> None:
    """Make Linux send SIGTERM when the parent ends; on other systems `_watch_parent` detects it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_CHECK_S)
    stop.set()


async def _run(options: argparse.Namespace, parent: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    watcher = asyncio.create_task(_watch_parent(parent, stop))
    async with SimulatedChain.start(
        devnet_genesis(chain_id=options.chain_id),
        block_seconds=options.block_seconds,
        port=options.rpc_port,
        grpc_port=options.grpc_port,
        folder=options.data,
    ) as chain:
        ready = {"chain_id": chain.chain_id, "rpc": chain.rpc_address, "grpc": chain.grpc_address}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()
    watcher.cancel()


def main() -> None:
    """Run the chain; print one JSON line with `chain_id`, `rpc` and `grpc` once it answers."""
    parent = os.getppid()
    _end_with_parent()
    asyncio.run(_run(_arguments(), parent))


if __name__ == "__main__":
    main()
