"""Real workers with real engines: killed every few seconds, all leases converge, none twice, none lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Namespace

from provider.workers.queued_engine import QueuedEngine
from stacks.common import StackResult
from tests.provider.workers.real import RealWorkers
from tests.stacks.leases import small
from tests.world.patience import eventually
from tests.world.postgresql_server import PostgresqlServer
from tests.world.redis_server import a_redis

LEASES, KILL_S, TRIES = 10, 10.0, 20


async def applied(engine: QueuedEngine, spec: Any) -> StackResult:
    """As the lease loop: what fails through the provider's fault is asked for again."""
    for _ in range(TRIES):
        result = await engine.up(spec)
        if result.ok or (result.cause is not None and not result.cause.provider_fault):
            return result
        await asyncio.sleep(2)
    return result


@pytest.mark.devnet
@pytest.mark.long
@pytest.mark.timeout(900)
async def test_three_workers_of_which_one_is_killed_every_ten_seconds_make_each_lease_once(
    devnet_cluster: Any, postgresql: PostgresqlServer, tmp_path: Path
):
    kubeconfig = devnet_cluster.kubeconfig
    specs = [small() for _ in range(LEASES)]
    with a_redis(tmp_path) as redis:
        workers = await asyncio.to_thread(
            lambda: RealWorkers(tmp_path, kubeconfig, postgresql, redis.url, slots=1)
        )  # fmt: skip
        async with workers.leader(places=6) as engine:
            for name in ("a", "b", "c"):
                workers.start(name)
            await workers.ready()
            making = asyncio.gather(*(applied(engine, spec) for spec in specs))
            kills = await kills_until(workers, making)
            results = await making
            assert all(result.ok for result in results), [result.error for result in results if not result.ok]
            done = workers.done()
            assert done.keys() == {spec.namespace for spec in specs}, "none is lost"
            assert done.total() <= LEASES + kills, "none is made twice, unless the result of a killed worker was lost"
            with lightkube.Client(KubeConfig.from_file(kubeconfig).get()) as client:
                assert all(client.get(Namespace, spec.namespace) for spec in specs)
            gone = await asyncio.gather(*(engine.destroy(spec.namespace) for spec in specs))
            assert all(result.ok for result in gone), [result.error for result in gone if not result.ok]
        await asyncio.to_thread(workers.end)
    assert kills


async def kills_until(workers: RealWorkers, making: asyncio.Future[Any]) -> int:
    """Kill one worker after the other until all is made. Returns how many; at least one, while something runs."""
    kills, names = 0, list(workers.running)
    await eventually(lambda: bool(workers.done()) or making.done())
    while not making.done():
        await asyncio.to_thread(workers.kill, names[kills % len(names)])
        kills += 1
        await asyncio.wait({making}, timeout=KILL_S)
    return kills
