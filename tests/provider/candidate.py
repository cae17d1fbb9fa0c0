"""A candidate as a process: it waits until it leads, then deletes objects without a pause. `TermOver` ends it with 3.

Arguments: kubeconfig, name, data folder of the engine.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from provider.errors import ClusterError
from provider.kube.client import KubeCluster
from provider.leadership import Leadership, TermOver, led
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import SECRET
from stacks.common import write_term


async def main(kubeconfig: Path, name: str, data: Path) -> None:
    own = KubeCluster(kubeconfig)
    leadership = Leadership(
        own, name="lessor", namespace="lease", identity=name, clock=SystemClock(), seconds=3.0, span=20,
        note_term=partial(write_term, data),
    )  # fmt: skip
    fenced = KubeCluster(kubeconfig, fence=lambda: leadership.term_problem)

    async def destroy() -> None:
        while True:
            with suppress(ClusterError):
                await fenced.delete(SECRET, f"of-{name}", namespace="lease")
            await asyncio.sleep(0.05)

    async with led(leadership) as holding:
        destroying = asyncio.create_task(destroy())
        try:
            await holding
        finally:
            destroying.cancel()
            await asyncio.gather(destroying, return_exceptions=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
    except TermOver as error:
        print(error)
        raise SystemExit(3) from None
