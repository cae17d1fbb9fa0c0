"""Workers are lent in turns, replaced when they are old or dead, and none is lost to a caller who goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stacks.common.priority import Priority
from stacks.engine import EngineConfig, WorkerLost
from stacks.engine.pool import Pool


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    """Workers need a command line that says its version, nothing more."""
    pulumi = tmp_path / "pulumi"
    pulumi.write_text("#!/bin/sh\necho v3.200.0\n")
    pulumi.chmod(0o700)
    return EngineConfig(data=tmp_path, kubeconfig=tmp_path / "none", pulumi=pulumi, workers=1, worker_operations=2)


@pytest.fixture
async def pool(config: EngineConfig) -> AsyncIterator[Pool]:
    pool = Pool(config)
    yield pool
    await pool.close()


async def test_who_waits_is_seen_and_served_by_urgency_and_tenant(pool):
    order = []

    async def use(name: str, priority: Priority, tenant: str) -> None:
        worker = await pool.take(priority=priority, tenant=tenant)
        order.append(name)
        await pool.give(worker, usable=True)

    held = await pool.take()
    asked = [
        ("repair", Priority.REPAIR, "d"),
        ("a1", Priority.UPDATE, "a"),
        ("a2", Priority.UPDATE, "a"),
        ("b1", Priority.UPDATE, "b"),
        ("first", Priority.FIRST, "c"),
    ]
    began = time.monotonic()
    tasks = [asyncio.create_task(use(*one)) for one in asked]
    await asyncio.sleep(0.05)

    load = pool.load
    assert (load.busy, load.workers) == (1, 1)
    assert load.waiting == {Priority.FIRST: 1, Priority.UPDATE: 3, Priority.DESTROY: 0, Priority.REPAIR: 1}
    assert 0.04 < load.oldest_s <= time.monotonic() - began
    await pool.give(held, usable=True)
    await asyncio.gather(*tasks)
    assert order == ["first", "a1", "b1", "a2", "repair"]
    assert (pool.load.busy, pool.load.oldest_s) == (0, 0.0)


async def test_a_caller_who_goes_away_takes_no_place_with_him(pool):
    held = await pool.take()
    gone, granted, last = (asyncio.create_task(pool.take(tenant=name)) for name in "abc")
    await asyncio.sleep(0)
    gone.cancel()
    await pool.give(held, usable=True)
    granted.cancel()  # in the very moment in which the place was given to it

    worker = await asyncio.wait_for(last, 10)

    assert gone.cancelled() and granted.cancelled()
    assert worker is held and pool.load.busy == 1
    await pool.give(worker, usable=True)
    assert pool.load.busy == 0


async def test_an_old_a_dead_and_a_spoilt_worker_are_replaced(pool):
    first = await pool.take()
    os.kill(first.pid, signal.SIGKILL)
    while first.alive:
        await asyncio.sleep(0.01)
    await pool.give(first, usable=True)
    second = await pool.take()
    assert second.pid != first.pid
    second.operations = 1
    await pool.give(second, usable=True)
    assert (await pool.take()) is second, "it has one operation left"
    second.operations = 2
    await pool.give(second, usable=True)

    assert pool.pids() == [] and not second.alive


async def test_a_closed_pool_starts_nothing_until_it_is_opened(pool):
    held = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)

    await pool.close()

    with pytest.raises(WorkerLost, match="closed"):
        await waiting
    with pytest.raises(WorkerLost, match="closed"):
        await pool.take()
    assert not held.alive
    await pool.give(held, usable=True)
    assert pool.load.busy == 0 and pool.pids() == []
    pool.open()
    await pool.give(await pool.take(), usable=True)


async def test_a_worker_that_does_not_start_costs_no_place(config, pool):
    config.pulumi.unlink()
    for _ in range(2):
        with pytest.raises(WorkerLost, match="did not start"):
            await pool.take()

    assert pool.load.busy == 0
