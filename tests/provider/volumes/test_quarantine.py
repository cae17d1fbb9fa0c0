"""Volumes of a lease that has ended are kept until their time is over, whatever crashes meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from lease.ids import namespace_name
from provider.errors import ClusterError
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory
from provider.inventory.watcher import InventoryWatcher
from provider.lifecycle.sources import find_leases
from provider.lifecycle.state import Phase
from provider.observe.provider_status import provider_status
from provider.protocols.cluster import MANIFEST, NAMESPACE
from provider.settings import Settings
from provider.volumes.marks import read_kept
from tests.provider.lifecycle.world import a_lease, unknown
from tests.provider.volumes.kept import DAY, GIB, Kept, L, quarantined
from tests.world.engine import Killed

pytestmark = pytest.mark.virtual_time

NAME = namespace_name(L)


async def test_off_by_default_a_volume_goes_with_its_lease() -> None:
    world = Kept(volume_quarantine_s=0.0)
    await world.with_volume(L)
    assert await world.close(L) is Phase.CLOSED
    assert world.storage.deleted == ["pv-1"]


async def test_a_closed_leases_volume_is_kept_and_says_whose_it_is_and_until_when() -> None:
    world = await quarantined()
    kept = read_kept(world.volume())
    assert kept is not None
    assert (kept.lease, kept.claim, kept.size_bytes, kept.asked_bytes) == (L, "web-data-web-0", GIB, GIB)
    assert kept.until == pytest.approx(world.clock.now() + DAY, abs=1)
    assert (kept.released, kept.going, kept.bound) == (True, False, False)
    assert world.leftovers(L) == []
    assert world.released == [L.order]
    status = world.loop.statuses[L]
    assert status.phase is Phase.QUARANTINED
    assert "1 volume, 1 GiB: web-data-web-0 kept until 2023-11-15T22:13:20Z" in status.reason


async def test_a_namespace_is_not_deleted_while_a_bound_volume_of_it_cannot_be_marked() -> None:
    world = Kept()
    await world.with_volume(L)

    def refuse(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("apply", "PersistentVolume"):
            raise ClusterError("https://fake", "admission webhook denied the request", status=403)

    world.cluster.before = refuse
    assert await world.close(L) is not Phase.QUARANTINED
    assert world.cluster.find(NAMESPACE, NAME) is not None
    assert not world.cluster.terminating(NAME)
    assert NAME in world.engine.state
    assert "webhook" in world.loop.statuses[L].reason
    world.cluster.before = lambda *_: None
    assert await world.close(L) is Phase.QUARANTINED
    assert world.storage.deleted == []


@pytest.mark.parametrize("call", range(30))
async def test_a_crash_at_any_call_of_an_end_loses_no_data(call: int) -> None:
    world = Kept()
    await world.with_volume(L)
    left = call

    def die(operation: str, kind: str, name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    world.cluster.before = die
    with suppress(Killed):
        await world.close(L)
    world.cluster.before = lambda *_: None
    world.cluster.settle()
    world.storage.settle()
    world.restart()
    assert await world.close(L) is Phase.QUARANTINED
    assert world.storage.deleted == []
    assert world.leftovers(L) == []


async def test_when_the_time_is_over_the_storage_deletes_it_and_the_lease_is_closed() -> None:
    world = await quarantined()
    async with world.tended() as clock:
        await world.later(clock, DAY - 1)
        assert world.storage.deleted == []
        await world.later(clock, 200)
        assert world.storage.deleted == ["pv-1"]
        assert (await world.check(L)).phase is Phase.CLOSED
    assert L not in world.loop.statuses


async def test_what_ended_its_time_while_nobody_ran_is_deleted_after_the_start() -> None:
    world = await quarantined()
    await world.clock.advance(3 * DAY)
    world.restart()
    assert (await world.check(L)).phase is Phase.QUARANTINED
    async with world.tended() as clock:
        assert world.volume()["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        await world.later(clock, 100)
        assert world.storage.deleted == ["pv-1"]
        assert (await world.check(L)).phase is Phase.CLOSED


async def test_a_storage_that_cannot_delete_keeps_it_listed_with_its_message() -> None:
    world = await quarantined()
    world.storage.stuck["pv-1"] = "rpc error: volume is still attached"
    async with world.tended() as clock:
        await world.later(clock, DAY + 200)
        world.storage.settle()
        outcome = await world.check(L)
        assert outcome.phase is Phase.QUARANTINED
        assert "waits for its storage to delete it: rpc error: volume is still attached" in outcome.reason
        world.storage.stuck.clear()
        world.storage.settle()
        await clock.settle()
        assert (await world.check(L)).phase is Phase.CLOSED


async def test_a_volume_that_goes_between_the_list_and_the_watch_is_not_kept_in_mind() -> None:
    world = await quarantined()
    lists = 0

    def go(operation: str, kind: str, name: str) -> None:
        """The watch lists again when it begins; at that moment the volume has gone."""
        nonlocal lists
        lists += (operation, kind) == ("list", "PersistentVolume")
        if lists == 2 and world.storage.volumes():
            world.cluster.remove(("v1", "PersistentVolume", "", "pv-1"))

    world.restart()
    world.cluster.before = go
    async with world.tended() as clock:
        await clock.settle()
        assert lists == 2
        assert world.loop.quarantined == []


async def test_a_policy_that_cannot_be_written_is_logged_and_tried_again() -> None:
    world = await quarantined()

    def refuse(operation: str, kind: str, name: str) -> None:
        if operation == "apply" and kind == "PersistentVolume":
            raise ClusterError("https://fake", "etcd is full", status=500)

    async with world.tended() as clock:
        world.cluster.before = refuse
        await world.later(clock, DAY + 200)
        assert "etcd is full" in (await world.check(L)).reason
        world.cluster.before = lambda *_: None
        await world.later(clock, 60)
        assert world.storage.deleted == ["pv-1"]


@pytest.mark.parametrize("jump", [-10 * DAY, -60.0, 30.0])
async def test_a_clock_that_jumps_deletes_nothing_early(jump: float) -> None:
    world = await quarantined()
    async with world.tended() as clock:
        await world.later(clock, DAY - 60)
        clock.jump(jump)
        await world.later(clock, 29)
        assert world.storage.deleted == []


async def test_a_clock_that_is_ahead_for_a_moment_deletes_nothing() -> None:
    world = await quarantined()
    async with world.tended() as clock:
        clock.jump(365 * DAY)
        await world.later(clock, 50)
        clock.jump(-365 * DAY)
        await world.later(clock, 1000)
        assert world.storage.deleted == []


async def test_a_clock_that_was_an_hour_behind_and_is_put_right_delays_the_deletion_by_minutes() -> None:
    world = await quarantined(volume_quarantine_s=1000.0)
    async with world.tended() as clock:
        await world.later(clock, 900)
        clock.jump(-3600)
        await world.later(clock, 150)  # the next wait is computed from the clock that is behind
        clock.jump(3600)
        await world.later(clock, 200)
        assert world.storage.deleted == ["pv-1"]


async def test_with_the_setting_off_again_what_is_kept_keeps_its_time() -> None:
    world = await quarantined()
    world.config = type(world.config)(**{**_fields(world.config), "volume_quarantine_s": 0.0})
    world.restart()
    async with world.tended() as clock:
        assert (await world.check(L)).phase is Phase.QUARANTINED
        await world.later(clock, DAY / 2)
        assert world.storage.deleted == []
        await world.later(clock, DAY)
        assert world.storage.deleted == ["pv-1"]


async def test_a_label_nobody_can_read_deletes_nothing_and_is_listed() -> None:
    world = await quarantined()
    volume = world.volume()
    volume["metadata"]["labels"]["akash.network/quarantine.until"] = "tomorrow"
    async with world.tended() as clock:
        await world.later(clock, 2 * DAY)
        assert world.storage.deleted == []
        assert "until its label is corrected" in (await world.check(L)).reason


async def test_a_volume_whose_class_retains_is_left_as_it_would_have_been() -> None:
    world = Kept()
    await world.with_volume(L)
    volume = world.volume()
    world.cluster.put({**volume, "spec": {**volume["spec"], "persistentVolumeReclaimPolicy": "Retain"}})
    assert await world.close(L) is Phase.QUARANTINED
    async with world.tended() as clock:
        await world.later(clock, DAY + 200)
        assert (await world.check(L)).phase is Phase.CLOSED
    assert world.volume()["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert read_kept(world.volume()) is None
    assert world.volume()["metadata"]["labels"] == {}


async def test_after_a_restart_a_lease_with_nothing_but_volumes_is_found_and_needs_no_proof() -> None:
    world = await quarantined()
    world.restart()
    world.chain.lies.append(unknown(world.chain.height + 1))
    task = asyncio.create_task(world.loop.run())
    await world.clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert world.loop.statuses[L].phase is Phase.QUARANTINED
    assert not world.loop.suspects
    assert not world.loop.braked


async def test_the_brake_does_not_count_leases_of_which_only_volumes_are_left() -> None:
    world = Kept(brake_leases=0, brake_percent=0.0)
    leases = [a_lease(dseq) for dseq in range(1, 4)]
    for lease in leases:
        await world.with_volume(lease)
        assert await world.close(lease) is Phase.QUARANTINED
    world.restart()
    for _ in range(2):
        phases = {(await world.check(lease)).phase for lease in leases}
    assert phases == {Phase.QUARANTINED}
    assert world.reconciler.memories.held() == frozenset()
    other = a_lease(9)
    await world.with_volume(other)
    assert await world.close(other) is Phase.QUARANTINED


async def test_leases_of_which_only_volumes_are_left_are_no_leases_of_the_provider_any_more() -> None:
    world = await quarantined()
    other = a_lease(2)
    await world.with_volume(other)
    found = await find_leases(world.chain, world.cluster, world.engine, config=world.config)  # type: ignore[arg-type]
    assert (found.leases, found.only_volumes) == ({L, other}, 1)
    inventory = Inventory()
    told = provider_status(Ledger(L.provider), inventory, world.loop.statuses, open_orders=0)
    assert (told.leases, told.deployments) == (1, 1)


async def test_another_providers_volumes_in_the_same_cluster_are_his_business() -> None:
    world = await quarantined()
    labels = world.volume()["metadata"]["labels"]
    labels["akash.network/lease.id.provider"] = "akash1another"
    async with world.tended() as clock:
        await world.later(clock, 2 * DAY)
        assert world.loop.quarantined == []
    assert world.storage.deleted == []


async def test_volumes_of_other_namespaces_are_not_touched() -> None:
    world = Kept()
    other = a_lease(2)
    await world.with_volume(L)
    await world.with_volume(other)
    before = world.volume("pv-2")
    assert await world.close(L) is Phase.QUARANTINED
    assert world.volume("pv-2") == before
    assert world.cluster.find(MANIFEST, namespace_name(other), "lease") is not None


async def test_the_ledger_counts_a_volume_of_its_class_until_it_is_gone() -> None:
    world = await quarantined()
    inventory = InventoryWatcher(
        world.cluster,
        Settings(storage_classes={"beta2": 10 * GIB}),
        bus=world.bus,
        clock=world.clock,
    )
    task = asyncio.create_task(inventory.run())
    async with world.tended() as clock:
        assert Ledger(L.provider).free(inventory.inventory).pools == {"beta2": 9 * GIB}
        await world.later(clock, DAY + 200)
        assert Ledger(L.provider).free(inventory.inventory).pools == {"beta2": 10 * GIB}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _fields(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in type(config).__dataclass_fields__}
