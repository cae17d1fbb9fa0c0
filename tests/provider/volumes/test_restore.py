"""`lessor lease restore`: data of a lease that has ended goes to another, and is never lost on the way."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from lease.ids import LeaseId, namespace_name
from provider.lifecycle.control import answer_request
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from provider.volumes.marks import read_kept, rebound
from provider.volumes.restore import NotRestored, RestoreRequest
from tests.provider.lifecycle.world import OTHER, a_group, a_lease
from tests.provider.volumes.kept import DAY, GIB, Kept, L, quarantined
from tests.world.engine import Killed

pytestmark = pytest.mark.virtual_time

N = a_lease(2)
SPACE = namespace_name(N)
CLAIM = "web-data-web-0"


async def won(world: Kept, lease: LeaseId = N) -> None:
    """Another lease, whose tenant has not sent its manifest yet."""
    world.chain.put_lease(lease, LeaseState.ACTIVE)
    assert (await world.check(lease)).phase is Phase.WAITING_FOR_MANIFEST


def claim(world: Kept) -> dict[str, Any]:
    found = world.cluster.find(PERSISTENT_VOLUME_CLAIM, CLAIM, SPACE)
    assert found is not None
    return found


def a_pod(world: Kept, name: str = "web-0") -> None:
    """What runs on the claim."""
    volumes = [{"name": "web-data", "persistentVolumeClaim": {"claimName": CLAIM}}]
    meta = {"name": name, "namespace": SPACE}
    world.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"volumes": volumes}})


@pytest.mark.parametrize("into", [N, L])
async def test_restored_before_the_manifest_the_new_leases_claim_gets_the_old_volume(into: LeaseId) -> None:
    """Into L itself, which has ended: the tenant's only lease is meant."""
    world = await quarantined()
    await won(world)
    told = await world.loop.restore(RestoreRequest(L, into))
    assert CLAIM in told and str(N) in told
    async with world.tended() as clock:
        assert "for its claim in lease" in (await world.check(L)).reason
        world.storage.settle()
        await world.with_volume(N)
        assert claim(world)["spec"]["volumeName"] == "pv-1"
        await world.later(clock, 1)
        assert (await world.check(L)).phase is Phase.CLOSED
    volume = world.volume()
    assert read_kept(volume) is None
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    assert volume["metadata"]["labels"] == {} and volume["metadata"]["annotations"] == {}
    assert len(world.storage.volumes()) == 1


async def test_what_was_restored_is_kept_again_when_its_new_lease_ends() -> None:
    world = await quarantined()
    await won(world)
    await world.loop.restore(RestoreRequest(L, N))
    await world.with_volume(N)
    assert await world.close(N) is Phase.QUARANTINED  # nobody tended to it meanwhile
    kept = read_kept(world.volume())
    assert kept is not None and (kept.lease, kept.into) == (N, None)
    assert (await world.check(L)).phase is Phase.CLOSED
    assert world.storage.deleted == []


async def test_a_lease_that_ends_before_its_claim_was_made_keeps_the_volume_and_its_time() -> None:
    world = await quarantined()
    await won(world)
    await world.loop.restore(RestoreRequest(L, N))
    world.storage.settle()
    assert await world.close(N) is Phase.QUARANTINED
    async with world.tended() as clock:
        await world.later(clock, DAY + 200)
        world.storage.settle()
        assert world.storage.deleted == ["pv-1"]
        await clock.settle()
        assert (await world.check(N)).phase is Phase.CLOSED


async def test_a_restored_volume_whose_claim_is_never_made_goes_when_its_time_is_over() -> None:
    world = await quarantined()
    await won(world)
    async with world.tended() as clock:
        await world.later(clock, DAY / 2)
        await world.loop.restore(RestoreRequest(L, N))
        await world.later(clock, DAY - 1)
        assert world.storage.deleted == []
        await world.later(clock, 200)
        world.storage.settle()
        assert world.storage.deleted == ["pv-1"]


async def test_a_claim_that_has_a_fresh_volume_by_now_is_refused_with_the_way_out() -> None:
    world = await quarantined()
    await world.with_volume(N)
    before = world.volume()
    with pytest.raises(NotRestored, match=r"has volume pv-2 by now.*--swap.*before its manifest is sent"):
        await world.loop.restore(RestoreRequest(L, N))
    assert world.volume() == before


@pytest.mark.parametrize("crash", [None, *range(12)])
async def test_a_swap_puts_the_fresh_volume_into_quarantine_and_deletes_nothing(crash: int | None) -> None:
    """Killed at any call and said again, it comes to the same."""
    world = await quarantined()
    await world.with_volume(N)
    a_pod(world)
    a_pod(world, "other-0")
    world.cluster.objects["v1", "Pod", SPACE, "other-0"]["spec"] = {}
    if crash is not None:
        left = crash

        def die(operation: str, kind: str, name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        world.cluster.before = die
        with suppress(Killed):
            await world.loop.restore(RestoreRequest(L, N, swap=True))
        world.cluster.before = lambda *_: None
    with suppress(NotRestored):  # it was done but for the answer
        await world.loop.restore(RestoreRequest(L, N, swap=True))
    assert world.cluster.named(POD) == ["other-0"]
    async with world.tended() as clock:
        await world.with_volume(N)  # the StatefulSet makes its claim anew
        await world.later(clock, 1)
        assert claim(world)["spec"]["volumeName"] == "pv-1"
        assert read_kept(world.volume()) is None
        fresh = read_kept(world.volume("pv-2"))
        assert fresh is not None and (fresh.lease, fresh.asked_bytes, fresh.bound) == (N, GIB, False)
        assert (await world.check(L)).phase is Phase.CLOSED
        assert (await world.converge(N)).phase is Phase.RUNNING
        assert world.storage.deleted == []
    assert claim(world)["spec"]["volumeName"] == "pv-1"


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ({"size": 2 * GIB}, "asks for 2 GiB, and the volume has 1 GiB"),
        ({"size": GIB // 2}, "asks for 0.5 GiB"),
        ({"volume_class": "beta3"}, "asks for class beta3, and the volume is of class beta2"),
        ({"volume_class": "default"}, "asks for class beta1"),
        ({"name": "db"}, "has no claim web-data-web-0 but db-data-db-0"),
    ],
)
@pytest.mark.parametrize("made", [True, False])
async def test_what_was_rented_otherwise_is_refused(group: dict[str, Any], why: str, made: bool) -> None:
    world = await quarantined()
    meta = {"name": "beta1", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    world.cluster.put({"apiVersion": STORAGE_CLASS.api_version, "kind": STORAGE_CLASS.kind, "metadata": meta})
    group = dict(group)
    size = group.pop("size", GIB)
    if made:
        await world.with_volume(N, size, **group)
        if group.get("volume_class") == "default":
            claim(world)["spec"]["storageClassName"] = "beta1"  # as admission does
    else:
        await won(world)
        await world.send(N, a_group(volume_bytes=size, **group))
    before = world.volume()
    with pytest.raises(NotRestored, match=why):
        await world.loop.restore(RestoreRequest(L, N, swap=True))
    assert world.volume() == before


async def test_a_storage_that_gave_more_than_was_asked_for_is_no_difference() -> None:
    world = Kept()
    spec = await world.run(L, a_group(volume_bytes=GIB))
    world.storage.claim(spec)
    world.storage.settle()
    volume = world.volume()
    world.cluster.put({**volume, "spec": {**volume["spec"], "capacity": {"storage": str(10 * GIB)}}})
    assert await world.close(L) is Phase.QUARANTINED
    await won(world)
    await world.send(N, a_group(volume_bytes=GIB))
    await world.loop.restore(RestoreRequest(L, N))
    await world.with_volume(N)
    assert claim(world)["spec"]["volumeName"] == "pv-1"


async def test_data_goes_to_another_tenant_only_with_force_owner() -> None:
    world = await quarantined()
    stranger = a_lease(3, owner=OTHER)
    await won(world, stranger)
    with pytest.raises(NotRestored, match="--force-owner"):
        await world.loop.restore(RestoreRequest(L, stranger))
    assert str(stranger) in await world.loop.restore(RestoreRequest(L, stranger, force_owner=True))


async def test_which_lease_gets_it_must_be_clear_and_alive() -> None:
    world = await quarantined()
    with pytest.raises(NotRestored, match="--into; no lease runs of this tenant"):
        await world.loop.restore(RestoreRequest(L, L))
    with pytest.raises(NotRestored, match="does not run here"):
        await world.loop.restore(RestoreRequest(L, N))
    await won(world)
    await won(world, a_lease(3))
    await won(world, a_lease(4, owner=OTHER))
    with pytest.raises(NotRestored, match=r"running are .*/2/1/1/.*, .*/3/1/1/[^,]* of this tenant"):
        await world.loop.restore(RestoreRequest(L, L))


async def test_what_is_not_there_or_on_its_way_out_is_not_restored() -> None:
    world = await quarantined()
    await won(world)
    for request, why in (
        (RestoreRequest(N, N), "no volume of .* is in quarantine"),
        (RestoreRequest(L, N, only=("web-cache-web-0",)), "has no volume web-cache-web-0; it has pv-1, web-data-web-0"),
    ):
        with pytest.raises(NotRestored, match=why):
            await world.loop.restore(request)
    world.storage.stuck["pv-1"] = "busy"
    async with world.tended() as clock:
        await world.later(clock, DAY + 200)
        with pytest.raises(NotRestored, match="its storage deletes it now"):
            await world.loop.restore(RestoreRequest(L, N, only=("pv-1",)))


async def test_an_expiry_that_was_decided_a_moment_ago_does_not_undo_a_restore() -> None:
    world = await quarantined()
    await won(world)
    async with world.tended() as clock:
        await clock.advance(DAY + 50)  # over, but not for long enough

        def restored(operation: str, kind: str, name: str) -> None:
            if (operation, kind) == ("apply", PERSISTENT_VOLUME.kind):
                world.cluster.before = lambda *_: None
                volume = world.volume()
                until = world.clock.now() + DAY
                world.cluster.put(rebound(volume, N, namespace=SPACE, claim=CLAIM, until=until))

        world.cluster.before = restored
        await clock.advance(30)
        assert world.volume()["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


async def test_restore_requests_reach_the_provider() -> None:
    world = await quarantined()
    await won(world)
    async with world.tended() as clock:
        listed = await answer_request(world.loop, b'{"word": "volumes"}')
        assert [(each["claim"], each["size_bytes"], each["into"]) for each in listed["volumes"]] == [(CLAIM, GIB, None)]
        request = {"word": "restore", "lease": str(L), "into": str(N), "only": ["pv-1"]}
        assert (await answer_request(world.loop, json.dumps(request).encode()))["ok"]
        await clock.settle()
        again = await answer_request(world.loop, b'{"word": "volumes"}')
        assert [each["into"] for each in again["volumes"]] == [str(N)]


@pytest.mark.parametrize(
    "more",
    [{"into": 7}, {"into": "a/b"}, {"only": "pv-1"}, {"only": [1]}, {"only": {}}, {"into": ["x"]}, {"lease": None}],
)
async def test_a_restore_that_is_no_request_changes_nothing(more: dict[str, Any]) -> None:
    world = await quarantined()
    await won(world)
    before = world.volume()
    request = {"word": "restore", "lease": str(L), "into": str(N)} | more
    answer = await answer_request(world.loop, json.dumps(request).encode())
    assert not answer["ok"] or more == {"only": {}}
    if not answer["ok"]:
        assert world.volume() == before


@pytest.mark.parametrize("flag", ["yes", 1, "true", [], None])
async def test_a_flag_counts_only_when_it_is_true(flag: object) -> None:
    world = await quarantined()
    stranger = a_lease(3, owner=OTHER)
    await won(world, stranger)
    request = {"word": "restore", "lease": str(L), "into": str(stranger), "force_owner": flag}
    assert "--force-owner" in (await answer_request(world.loop, json.dumps(request).encode()))["text"]
