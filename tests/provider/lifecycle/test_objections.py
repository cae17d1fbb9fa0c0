"""Versions that are not applied at all: the engine is never asked, what runs is not touched, the reason is written."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lease.ids import namespace_name
from lease.manifest import Group
from policies.book import read_book
from provider.errors import ClusterError
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.cluster import DEPLOYMENT, SECRET, STATEFUL_SET
from provider.records.applied import applied_name
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.cluster import FakeCluster
from tests.world.engine import FakeEngine, Fault, Killed

pytestmark = pytest.mark.virtual_time

L = a_lease()
WITH_VOLUME: dict[str, Any] = {"volume_bytes": 10**9}

LOSSES = [
    pytest.param(a_group(volume_bytes=2 * 10**9), "1G of class beta2", "2G of class beta2", id="a larger volume"),
    pytest.param(a_group(volume_bytes=5 * 10**8), "1G of class beta2", "500M of class beta2", id="a smaller volume"),
    pytest.param(a_group(**WITH_VOLUME, volume_class="beta3"), "class beta2", "class beta3", id="another class"),
    pytest.param(a_group(), "a service with volumes", "a service without volumes", id="no volume any more"),
    pytest.param(a_group(**WITH_VOLUME, name="site"), "running with volumes", "removed", id="another name"),
]


@pytest.mark.parametrize(("newer", "old", "new"), LOSSES)
async def test_a_version_that_would_lose_data_is_refused_before_the_engine_runs(
    newer: Group, old: str, new: str
) -> None:
    world = World()
    await world.run(L, a_group(**WITH_VOLUME))
    before, calls = dict(world.cluster.objects), len(world.engine.calls)
    await world.send(L, newer)
    outcome = await world.converge(L)
    assert outcome.phase is Phase.UPDATE_FAILED
    assert old in outcome.reason and new in outcome.reason and "close this deployment" in outcome.reason
    assert len(world.engine.calls) == calls
    assert {key for key in before if before[key] != world.cluster.objects[key]} <= {
        ("v1", "Secret", "lease", applied_name(L)),
        ("akash.network/v2beta2", "Manifest", "lease", namespace_name(L)),
    }
    assert tenant_text(world.reconciler.statuses[L]) == f"{Phase.UPDATE_FAILED}: {outcome.reason}"


async def test_a_tenant_who_sends_another_manifest_after_a_refusal_is_served() -> None:
    world = World()
    await world.run(L, a_group(**WITH_VOLUME))
    await world.send(L, a_group())
    await world.converge(L)
    await world.send(L, a_group("nginx:2", **WITH_VOLUME))
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.image(L) == "nginx:2"


async def test_a_refusal_in_the_middle_of_another_update_lets_the_last_complete_version_come_back() -> None:
    world = World()
    await world.run(L, a_group(**WITH_VOLUME))
    await world.send(L, a_group("nginx:2", **WITH_VOLUME))
    world.engine.faults.append(Fault(kill=True, objects=99))
    with pytest.raises(Killed):
        await world.check(L)
    world.restart()
    assert world.image(L) == "nginx:2"
    await world.send(L, a_group())
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    assert world.image(L) == "nginx:1"


async def test_volumes_are_read_from_the_cluster_when_the_record_of_what_was_applied_is_lost() -> None:
    world = World()
    await world.run(L, a_group(**WITH_VOLUME))
    world.cluster.remove(("v1", "Secret", "lease", applied_name(L)))
    world.engine.lose_state()
    calls = len(world.engine.calls)
    await world.send(L, a_group("nginx:2", volume_bytes=2 * 10**9))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.FAILED and "1G of class beta2" in outcome.reason
    assert len(world.engine.calls) == calls
    await world.send(L, a_group("nginx:2", **WITH_VOLUME))
    assert (await world.converge(L)).phase is Phase.RUNNING
    live = world.cluster.find(STATEFUL_SET, "web", namespace_name(L))
    assert live is not None and live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"


async def test_a_renamed_service_without_volumes_works_and_leaves_nothing_of_the_old_name() -> None:
    world = World()
    await world.run(L, a_group())
    await world.send(L, a_group(name="site"))
    assert (await world.converge(L)).phase is Phase.RUNNING
    names = {key[3] for key in world.cluster.objects if key[2] == namespace_name(L)}
    assert names == {"site", "akash-rented", "akash-defaults"}


async def test_a_service_gets_its_first_volume() -> None:
    world = World()
    await world.run(L, a_group())
    await world.send(L, a_group(**WITH_VOLUME))
    assert (await world.converge(L)).phase is Phase.RUNNING


def with_noise(size: int) -> Group:
    """A service with a variable whose text does not compress below three quarters."""
    noise = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=size))
    (service,) = a_group("nginx:2").services or ()
    return Group("west", (replace(service, env=(f"A={noise}",)),))


async def test_a_version_whose_record_would_not_fit_is_refused_before_the_engine_runs() -> None:
    """An older gateway accepted it; each of its updates would end with a write that fails."""
    world = World()
    await world.run(L, a_group())
    calls = len(world.engine.calls)
    await world.send(L, with_noise(1_500_000))
    outcome = await world.converge(L)
    assert (outcome.phase, len(world.engine.calls)) == (Phase.UPDATE_FAILED, calls)
    assert "a Secret holds" in outcome.reason


class Full(FakeCluster):
    """An API server that never takes the record of the version with the image nginx:2."""

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        spec = (obj.get("data") or {}).get("spec", "")
        if obj["metadata"]["name"] == applied_name(L) and b"nginx:2" in base64.b64decode(spec):
            raise ClusterError("fake", "Secret is invalid: data: Too long", status=422)
        return await super().apply(obj, status=status, dry_run=dry_run)


async def test_a_record_that_the_api_server_never_takes_is_written_once() -> None:
    world = World()
    world.cluster = Full()
    world.engine = FakeEngine(world.cluster)
    world.restart()
    await world.run(L, a_group())
    world.engine.calls.clear()
    await world.send(L, a_group("nginx:2"))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.UPDATE_FAILED
    assert "cannot be written" in outcome.reason
    assert world.engine.calls == [(Operation.UP, namespace_name(L))] * 2  # the version, and the one before it again
    for _ in range(3):
        await world.converge(L)
    assert len(world.engine.calls) == 2


async def test_what_a_policy_forbids_is_refused_before_the_engine_runs() -> None:
    world = World()
    await world.win(L, a_group(ip="meow"))
    plain = world.build_spec

    def with_hostile_class(inputs: SpecInputs) -> Any:
        spec = plain(inputs)
        services = tuple(service.model_copy(update={"runtime_class": "../x"}) for service in spec.services)
        return spec.model_copy(update={"services": services})

    world.build_spec = with_hostile_class  # type: ignore[method-assign]
    world.restart()
    outcome = await world.converge(L)
    assert world.engine.calls == []
    assert outcome.phase is Phase.FAILED and outcome.reason
    assert world.cluster.find(SECRET, applied_name(L), "lease") is not None


async def test_the_way_back_is_never_refused() -> None:
    """A builder that has become stricter must not keep a lease from what it ran all the time."""
    world = World()
    await world.run(L, a_group("nginx:1", **WITH_VOLUME))
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(L, a_group("bad:1", **WITH_VOLUME))
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    assert world.image(L) == "nginx:1"


async def test_a_new_version_with_a_denied_image_is_refused_and_what_ran_before_is_repaired() -> None:
    world = World(policies=read_book(None, images_denied=("*miner*", "nginx:1")))
    await world.win(L, a_group("miner:1"))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.FAILED and "denied-image" in outcome.reason and not world.engine.calls
    older = World()
    await older.run(L, a_group("nginx:1"))
    older.config = world.config
    older.restart()
    calls = len(older.engine.calls)
    await older.cluster.delete(DEPLOYMENT, "web", namespace=namespace_name(L))
    outcome = await older.converge(L)
    assert outcome.phase is Phase.RUNNING and len(older.engine.calls) > calls
