"""The store's file is damaged under a provider with a lease, an open bid and a hostname, and again before a start:
nothing is torn down, no order is bid twice, and the operator reads of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devnet.world import ProviderProcess, World
from lease.ids import DeploymentId, namespace_name
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of
from tests.whole.test_faults import EXAMPLES
from tests.world.patience import PATIENCE_S, eventually

pytestmark = [*MARKS, pytest.mark.long]


async def test_a_store_that_breaks_costs_its_history_and_nothing_else(world: World) -> None:
    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await deploy(world, provider, rented)
    waiting = await world.tenant.publish(sdl_of(EXAMPLES / "web.yaml"))
    await world.tenant.wait_for_bids(waiting, groups=1)
    before = await _objects(world, rented)

    _overwrite(world.data / "provider" / "lessor.db")
    await provider.wait_for("store.began_anew", seconds=PATIENCE_S)
    await eventually(lambda: _knows(world, rented, "running"), pause_s=1.0)
    assert "kept as" in await _store_findings(world)
    other = await world.tenant.publish(sdl_of(EXAMPLES / "web.yaml"))
    await world.tenant.wait_for_bids(other, groups=1)
    assert await provider.stop() == 0

    _truncate(world.data / "provider" / "lessor.db")
    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    try:
        assert [event["event"] for event in provider.events].count("store.began_anew") == 1
        await provider.wait_for("lease.state", lease=str(rented.lease), phase="running", seconds=PATIENCE_S)
        await _until_adopted(provider, waiting, other)
        assert not _bids(provider, waiting, other), "no order is bid on twice"
        assert [len(await world.tenant.bids(each)) for each in (waiting, other)] == [1, 1]
        assert await _objects(world, rented) == before, "no object was replaced or removed"
        await eventually(lambda: _has_claims(world, rented), pause_s=1.0)
        for each in (waiting, other):
            await world.tenant.close_deployment(each)
        await close(world, provider, rented)
    finally:
        await provider.stop()


def _overwrite(path: Path) -> None:
    """The rows that are only in the log beside the file go too."""
    for each in (path, path.with_name(f"{path.name}-wal")):
        size = each.stat().st_size
        with each.open("r+b") as file:
            file.write(b"\xa5" * size)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


async def _objects(world: World, rented: Rented) -> dict[str, str]:
    """The uid of each object of the lease that a new one would change."""
    kubectl = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig)]
    kinds = "deployment,pod,service,ingress,networkpolicy"
    argv = [*kubectl, "-n", namespace_name(rented.lease), "get", kinds, "-o", "json"]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=True)
    items = json.loads(done.stdout)["items"]
    return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in items}


async def _lessor(world: World, *arguments: str) -> Any:
    argv = [str(Path(sys.executable).with_name("lessor")), *arguments, "--json"]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, env=world.provider_env())
    return json.loads(done.stdout) if done.stdout.strip() else {}


async def _knows(world: World, rented: Rented, state: str) -> bool:
    listed = await _lessor(world, "lease", "list")
    return any(one["lease"] == str(rented.lease) and one["state"] == state for one in listed)


async def _has_claims(world: World, rented: Rented) -> bool:
    shown = await _lessor(world, "lease", "show", str(rented.lease))
    return any(one["kind"] == "hostname" and one["released_at"] is None for one in shown.get("claims", ()))


async def _store_findings(world: World) -> str:
    found = await _lessor(world, "status")
    return "\n".join(one["text"] for one in found["findings"] if one["subject"] == "store")


async def _until_adopted(provider: ProviderProcess, *deployments: DeploymentId) -> None:
    for each in deployments:
        order = f"{each.owner}/{each.dseq}/1/1"
        await provider.wait_for("market.bid_adopted", order=order, seconds=PATIENCE_S)


def _bids(provider: ProviderProcess, *deployments: DeploymentId) -> list[Any]:
    orders = {f"{each.owner}/{each.dseq}/1/1" for each in deployments}
    return [event for event in provider.events if event["event"] == "market.bid" and event["order"] in orders]
