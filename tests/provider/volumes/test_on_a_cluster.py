"""Quarantine and restore with the cluster's own controllers: bound, released, waiting for a claim, deleted."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.clock import SystemClock
from provider.volumes.restore import NotRestored, RestoreRequest
from tests.provider.lifecycle.real import real_world, runs, until
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = [pytest.mark.devnet, pytest.mark.long]

CLAIM = "web-data-web-0"
GIB = 2**30


class Storage:
    """What the cluster says of volumes."""

    def __init__(self, devnet: Any) -> None:
        self._devnet = devnet

    def volume(self, name: str) -> dict[str, Any] | None:
        found = self._devnet.kubectl("get", "pv", name, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def of(self, lease: LeaseId) -> str:
        """The volume that the lease's claim is bound to, empty when it is not."""
        path = "jsonpath={.status.phase} {.spec.volumeName}"
        args = ("-n", namespace_name(lease), "get", "pvc", CLAIM, "--ignore-not-found", "-o", path)
        phase, _, name = self._devnet.kubectl(*args).partition(" ")
        return name if phase == "Bound" else ""

    def phase(self, name: str) -> str:
        found = self.volume(name)
        return f"{found['status'].get('phase')} {found['spec']['persistentVolumeReclaimPolicy']}" if found else ""


def phase(world: World, lease: LeaseId) -> Phase | None:
    status = world.loop.statuses.get(lease)
    return status.phase if status else None


def told(world: World, storage: Storage, name: str) -> Callable[[], str]:
    return lambda: f"{storage.volume(name)} {dict(world.loop.statuses)}"


class HastyClock(SystemClock):
    """A clock that passes ten times as fast, so that the quarantine's minute is six seconds."""

    speed = 10

    def __init__(self) -> None:
        self._began = super().monotonic()

    def monotonic(self) -> float:
        return (super().monotonic() - self._began) * self.speed

    def now(self) -> float:
        return super().now() - (super().monotonic() - self._began) + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self.speed)


async def test_data_survives_its_lease_is_restored_swapped_in_and_deleted_when_its_time_is_over(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    first, second, third = (a_lease(secrets.randbelow(2**50)) for _ in range(3))
    storage = Storage(devnet_cluster)
    quick = World(clock=HastyClock(), volume_quarantine_s=86400.0)
    async with real_world(devnet_cluster, toolbox, tmp_path, world=quick) as (world, _):
        try:
            await world.win(first, a_group(volume_bytes=GIB))
            world.loop.check(first)
            await until(lambda: runs(world, first) and storage.of(first), lambda: f"{dict(world.loop.statuses)}")
            data = storage.of(first)
            world.chain.put_lease(first, LeaseState.CLOSED)
            world.loop.check(first)
            await until(lambda: phase(world, first) is Phase.QUARANTINED, told(world, storage, data))
            assert storage.phase(data) == "Released Retain"

            await world.win(second)
            world.loop.check(second)
            await until(lambda: phase(world, second) is not None, told(world, storage, data))
            await world.loop.restore(RestoreRequest(first, second))
            await until(lambda: storage.phase(data) == "Available Retain", told(world, storage, data))
            await world.send(second, a_group(volume_bytes=GIB))
            world.loop.check(second)
            await until(lambda: storage.of(second) == data, told(world, storage, data))
            await until(lambda: storage.phase(data) == "Bound Delete", told(world, storage, data))
            await until(lambda: phase(world, first) is None, told(world, storage, data))
            marks = (storage.volume(data) or {})["metadata"]
            assert not marks.get("labels")
            assert not any("quarantine" in key for key in marks.get("annotations", {}))
            world.chain.put_lease(second, LeaseState.CLOSED)
            world.loop.check(second)
            await until(lambda: phase(world, second) is Phase.QUARANTINED, told(world, storage, data))

            await world.win(third, a_group(volume_bytes=GIB))
            world.loop.check(third)
            await until(lambda: runs(world, third) and storage.of(third), told(world, storage, data))
            fresh = storage.of(third)
            with pytest.raises(NotRestored, match=f"has volume {fresh} by now"):
                await world.loop.restore(RestoreRequest(second, third))
            await world.loop.restore(RestoreRequest(second, third, swap=True))
            await until(lambda: storage.of(third) == data, told(world, storage, data))
            await until(lambda: storage.phase(fresh) == "Released Retain", told(world, storage, fresh))
            await until(lambda: runs(world, third), told(world, storage, data))

            past = "akash.network/quarantine.until=20200101T000000Z"
            devnet_cluster.kubectl("label", "pv", fresh, "--overwrite", past)
            await until(lambda: storage.volume(fresh) is None, told(world, storage, fresh))
            assert storage.of(third) == data

            await until(lambda: storage.phase(data) == "Bound Delete", told(world, storage, data))
            world.chain.put_lease(third, LeaseState.CLOSED)
            world.loop.check(third)
            await until(lambda: phase(world, third) is Phase.QUARANTINED, told(world, storage, data))
            devnet_cluster.kubectl("label", "pv", data, "--overwrite", past)
            await until(lambda: storage.volume(data) is None, told(world, storage, data))
            own = {first, second, third}  # the records of others' tests are on the same cluster
            await until(lambda: own.isdisjoint(world.loop.statuses), told(world, storage, data))
        finally:
            for lease in (first, second, third):
                await devnet_cluster.kubectl_async(
                    "delete", "namespace", namespace_name(lease), "--wait=false", "--ignore-not-found"
                )
