"""Leases that are made by `lessor worker` processes: how many a second with one worker and with more, and with kills.

    nice python -m benchmarks.workers [--leases 40] [--workers 2] [--killed 200] [--slots 2]

The workers are real, on one control plane, one PostgreSQL (rows, Pulumi's states) and one Redis, on this machine.
The leader's side is this program: it asks for all leases at once and tries again what fails through the provider's
fault. `leases_per_s_1` and `leases_per_s_N` are without kills; `cpu_s_a_lease` is of one worker with all processes that
it has started. Then three workers make `--killed` leases, and one of them is killed (SIGKILL) and started again every
10 seconds: `lost` leases are not made at the end or have no Deployment in the cluster, `twice` counts second operations
on a lease after one that had ended well, `taken_over` those that a killed worker had begun, `left` the rows and locks
that remain. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measurement import cluster, spent
from devnet.demo.processes import descendants
from lease.spec import LeaseSpec
from provider.kube.client import KubeCluster
from provider.protocols.cluster import DEPLOYMENT
from provider.workers.queued_engine import QueuedEngine
from tests.provider.workers.real import RealWorkers
from tests.stacks.leases import small
from tests.world.postgresql_server import PostgresqlServer, a_postgresql
from tests.world.redis_server import a_redis

_KILL_S = 10.0


class Fleet:
    """A cluster and servers, on which each trial has workers and a store of its own."""

    def __init__(self, base: Path, kubeconfig: Path, postgresql: PostgresqlServer, redis: str, *, slots: int) -> None:
        self.base, self.kubeconfig, self.postgresql, self.redis, self.slots = base, kubeconfig, postgresql, redis, slots
        self.trials = 0

    async def trial(self, leases: int, *, workers: int, kill: bool = False) -> dict[str, float]:
        """Make so many leases with so many workers."""
        self.trials += 1
        folder = self.base / f"trial{self.trials}"
        folder.mkdir()
        made = await asyncio.to_thread(
            lambda: RealWorkers(folder, self.kubeconfig, self.postgresql, self.redis, slots=self.slots)
        )  # fmt: skip
        async with made.leader(places=2 * self.slots * workers) as engine:
            for number in range(workers):
                made.start(f"w{number}")
            await made.ready()
            await asyncio.gather(*(_applied(engine, small()) for _ in range(self.slots * workers)))
            figures = await self._measured(made, engine, leases, kill=kill)
        await asyncio.to_thread(made.end)
        print(f"{workers} workers, {leases} leases: {figures}, load {os.getloadavg()[0]:.1f}", flush=True)
        return figures

    async def _measured(self, made: RealWorkers, engine: QueuedEngine, leases: int, *, kill: bool) -> dict[str, float]:
        specs = [small() for _ in range(leases)]
        before, began = _spent(made), time.monotonic()
        making = asyncio.gather(*(_applied(engine, spec) for spec in specs))
        kills = await _kill_until(made, making) if kill else 0
        tries: Sequence[int] = await making
        seconds, spent_s = time.monotonic() - began, _spent(made) - before
        names = {spec.namespace for spec in specs}
        done = [count for name, count in made.done().items() if name in names]
        return {
            "seconds": round(seconds, 1),
            "leases_per_s": round(leases / seconds, 2),
            "cpu_s_a_lease": round(spent_s / leases, 3),
            "lost": tries.count(0) + len(names - await _deployed(self.kubeconfig)),
            "twice": sum(done) - len(done),
            "taken_over": made.taken_over,
            "left": await made.left(names),
            "tries": sum(tries),
            "kills": kills,
        }


def _spent(made: RealWorkers) -> float:
    """CPU seconds of the workers that run and of all processes that they have started."""
    return sum(spent((process.pid, *descendants(process.pid))) for process in made.running.values())


async def _deployed(kubeconfig: Path) -> set[str]:
    """The namespaces that have a Deployment."""
    cluster = KubeCluster(kubeconfig)
    try:
        return {str(found["metadata"]["namespace"]) for found in await cluster.list(DEPLOYMENT)}
    finally:
        await cluster.aclose()


async def _applied(engine: QueuedEngine, spec: LeaseSpec) -> int:
    """How many tries it took; 0 when the lease was not made."""
    for number in range(1, 40):
        result = await engine.up(spec)
        if result.ok:
            return number
        print(f"try {number}: {result.error[:160]!r}", flush=True)
        await asyncio.sleep(min(2 * number, 20))
    print(f"not made: {result.error}", flush=True)
    return 0


async def _kill_until(made: RealWorkers, making: asyncio.Future[list[int]]) -> int:
    kills, names = 0, list(made.running)
    while not making.done():
        await asyncio.wait({making}, timeout=_KILL_S)
        if not making.done():
            await asyncio.to_thread(made.kill, names[kills % len(names)])
            kills += 1
    return kills


async def measure(fleet: Fleet, options: argparse.Namespace) -> dict[str, float]:
    one = await fleet.trial(options.leases, workers=1)
    more = await fleet.trial(options.leases, workers=options.workers)
    figures = {
        "leases": options.leases,
        "slots": options.slots,
        "leases_per_s_1": one["leases_per_s"],
        f"leases_per_s_{options.workers}": more["leases_per_s"],
        "cpu_s_a_lease": one["cpu_s_a_lease"],
    }
    if options.killed:
        killed = await fleet.trial(options.killed, workers=3, kill=True)
        names = ("leases_per_s", "lost", "twice", "taken_over", "left", "tries", "kills", "seconds")
        figures |= {"killed_leases": options.killed} | {f"killed_{name}": killed[name] for name in names}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig of a running devnet; default: start one")
    for name, default in {"leases": 40, "workers": 2, "killed": 200, "slots": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lessor-benchmark-")))
        kubeconfig, _ = stack.enter_context(cluster(options.kubeconfig))
        postgresql, redis = stack.enter_context(a_postgresql()), stack.enter_context(a_redis(base))
        figures = asyncio.run(measure(Fleet(base, kubeconfig, postgresql, redis.url, slots=options.slots), options))
    print(json.dumps(figures | {"load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
