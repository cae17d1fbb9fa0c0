"""The form of a lease's objects: what an earlier Lessor or the Go provider made is changed by its tenant, not by us."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from components.labels import ADMISSION
from lease.build import lease_spec
from lease.ids import namespace_name
from lease.spec import FIRST_FORM, FORM, ClusterFacts, LeaseSpec
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Phase
from provider.protocols.cluster import DEPLOYMENT, NAMESPACE, SECRET, Kind
from provider.records.applied import applied_name
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

LEASE = a_lease()
SPACE = namespace_name(LEASE)
QUOTA = Kind("v1", "ResourceQuota", "resourcequotas")


class Upgraded(World):
    """A provider that made form 1 until `upgrade`."""

    older = True

    def build_spec(self, inputs: SpecInputs) -> LeaseSpec:
        return super().build_spec(replace(inputs, form=FIRST_FORM) if self.older else inputs)

    def upgrade(self) -> None:
        self.older = False
        self.engine.calls.clear()
        self.restart()


def rolls(world: World) -> str:
    """What a pod is made from; another one rolls it."""
    found = world.cluster.find(DEPLOYMENT, "web", SPACE)
    assert found is not None
    return json.dumps(found["spec"]["template"], sort_keys=True)


def admission(world: World) -> str | None:
    found = world.cluster.find(NAMESPACE, SPACE)
    assert found is not None
    labels: dict[str, str] = found["metadata"]["labels"]
    return labels.get(ADMISSION)


async def test_an_upgrade_to_a_new_form_changes_nothing_until_the_tenants_next_manifest() -> None:
    world = Upgraded()
    await world.run(LEASE, a_group())
    before = rolls(world)
    world.upgrade()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert (world.engine.calls, rolls(world), admission(world)) == ([], before, None)
    await world.send(LEASE, a_group("nginx:2"))
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    spec = world.applied(LEASE).spec
    assert spec is not None
    assert (spec.form, admission(world)) == (FORM, "baseline")
    assert "seccompProfile" in rolls(world)
    assert world.cluster.find(QUOTA, "akash-rented", SPACE) is not None


async def test_a_new_lease_has_the_newest_form() -> None:
    world = World()
    assert (await world.run(LEASE, a_group())).form == FORM
    assert admission(world) == "baseline"


async def test_changed_settings_and_a_repair_keep_the_form() -> None:
    world = Upgraded()
    await world.run(LEASE, a_group())
    world.upgrade()
    world.settings = world.settings.model_copy(update={"overcommit_cpu_percent": 100})
    world.restart()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert world.engine.calls == [(Operation.UP, SPACE)]
    spec = world.applied(LEASE).spec
    assert spec is not None
    assert (spec.form, admission(world)) == (FIRST_FORM, None)
    assert "seccompProfile" not in rolls(world)


async def test_a_lost_record_keeps_the_form_that_the_namespace_shows() -> None:
    """So do objects of the Go provider, whose records are none of ours."""
    world = Upgraded()
    await world.run(LEASE, a_group())
    before = rolls(world)
    await world.cluster.delete(SECRET, applied_name(LEASE), namespace="lease")
    world.upgrade()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert (rolls(world), admission(world)) == (before, None)
    spec = world.applied(LEASE).spec
    assert spec is not None
    assert spec.form == FIRST_FORM


async def test_recreate_takes_the_newest_form() -> None:
    world = Upgraded()
    await world.run(LEASE, a_group())
    world.upgrade()
    await world.converge(LEASE)
    assert await world.reconciler.recreate(LEASE)
    world.restart()
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert "seccompProfile" in rolls(world)
    assert admission(world) == "baseline"


async def test_a_version_that_was_refused_before_an_upgrade_is_not_tried_again_in_another_form() -> None:
    world = Upgraded()
    await world.run(LEASE, a_group())
    world.engine.refused["nginx:2"] = "admission webhook denied the request"
    await world.send(LEASE, a_group("nginx:2"))
    assert (await world.converge(LEASE)).phase is Phase.UPDATE_FAILED
    world.upgrade()
    assert (await world.converge(LEASE)).phase is Phase.UPDATE_FAILED
    assert world.engine.calls == []


def test_a_spec_of_the_first_form_has_the_text_that_it_always_had() -> None:
    """Its hash is compared with records of earlier versions: a new field in it would make every lease be applied."""
    facts = ClusterFacts(own_addresses=("203.0.113.9/32",))
    made = lease_spec(
        lease=LEASE,
        group=a_group(),
        resource_version="1",
        placements={},
        addresses={},
        cluster=facts,
        settings=World().settings,
        form=FIRST_FORM,
    )
    text = made.canonical_json()
    assert not any(word in text for word in ('"form"', "own_addresses", "user_namespace", "NVIDIA"))
