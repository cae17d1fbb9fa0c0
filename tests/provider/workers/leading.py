"""A leader as a process: while it leads, workers destroy its own stacks again and again. `TermOver` ends it with 3.

Arguments: kubeconfig, URL of the store, URL of Redis, folder, name.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from provider.kube.client import KubeCluster
from provider.leadership import Leadership, TermOver, led
from provider.protocols.clock import SystemClock
from provider.workers.queued_engine import QueuedEngine
from tests.provider.workers.parts import TERM_S, leader

_STACKS = 4


async def main(kubeconfig: Path, url: str, redis: str, folder: Path, name: str) -> None:
    leadership = Leadership(
        KubeCluster(kubeconfig), name="lessor", namespace="lease", identity=name, clock=SystemClock(), seconds=TERM_S,
        span=20,
    )  # fmt: skip
    term, over = (lambda: leadership.term), (lambda: leadership.term_problem)
    async with led(leadership) as holding, leader(url, redis, folder, term=term, over=over) as engine:
        asking = [asyncio.create_task(engine.run())]
        asking += [asyncio.create_task(destroyed_again(engine, f"{name}-{number}")) for number in range(_STACKS)]
        try:
            await holding
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)


async def destroyed_again(engine: QueuedEngine, stack: str) -> None:
    while True:
        await engine.destroy(stack)
        await asyncio.sleep(0)


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5]))
    except TermOver as error:
        print(error)
        raise SystemExit(3) from None
