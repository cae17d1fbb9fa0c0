"""A lease that is won is offered to the engine once, and the offer is taken back when the lease ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.lease import lease_objects
from lease.ids import namespace_name
from lease.spec import FORM, ClusterFacts
from provider.errors import ChainError
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.spec_maker import BEFORE_THE_MANIFEST, SpecInputs, openable, opening_spec, spec_maker
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import MANIFEST
from provider.records.manifests import ManifestRecord
from provider.settings import load_settings
from stacks.common.results import Operation
from stacks.engine.openings import fits
from tests.components.specs import hostname, leased_ip, service, spec
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

FACTS = ClusterFacts()


class Opening(World):
    """A provider that opens updates."""

    def restart(self) -> None:
        super().restart()
        self.parts = replace(self.parts, specs=replace(self.parts.specs, open_updates=True))
        self.reconciler = Reconciler(self.parts, chain=self.chain, clock=self.clock)  # type: ignore[arg-type]


def test_what_is_known_when_a_lease_is_won_makes_its_namespace_and_the_general_policy() -> None:
    lease = a_lease()

    made = lease_objects(opening_spec(lease, FACTS))

    kinds = [(item["kind"], item["metadata"]["name"]) for item in made]
    assert kinds == [("Namespace", namespace_name(lease)), ("NetworkPolicy", "akash-deployment-restrictions")]
    labels = {item["metadata"]["labels"]["akash.network/manifest.resource.version"] for item in made}
    assert labels == {BEFORE_THE_MANIFEST}


def test_they_are_the_very_objects_of_the_whole_spec() -> None:
    lease = a_lease()
    services = (service(), service("db"))
    whole = openable(spec(*services, form=FORM, lease=lease, cluster=FACTS, first_resource_version="77"))
    opening = opening_spec(lease, FACTS)

    assert fits(opening, whole)
    assert all(item in lease_objects(whole) for item in lease_objects(opening))


OTHER = {
    "another lease": {"lease": a_lease(2)},
    "another version of the first deployment": {"first_resource_version": "77"},
    "other facts of the cluster": {"cluster": ClusterFacts(closed_ranges=("203.0.113.0/24",))},
    "another builder": {"builder_version": 1},
    "another form": {"form": 1},
}


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_a_spec_with_anything_else_below_it_does_not_fit(change: dict[str, object]) -> None:
    whole = openable(spec(service(), form=FORM, lease=a_lease(), cluster=FACTS))

    assert not fits(opening_spec(a_lease(), FACTS), whole.model_copy(update=change))


def test_services_hostnames_and_addresses_are_the_manifest_s_and_always_fit() -> None:
    whole = openable(
        spec(
            service("other"),
            form=FORM,
            lease=a_lease(),
            cluster=FACTS,
            hostnames=(hostname("h.localhost"),),
            leased_ips=(leased_ip(),),
        )
    )

    assert fits(opening_spec(a_lease(), FACTS), whole)


async def test_a_won_lease_is_offered_once_and_its_manifest_uses_it() -> None:
    world, lease = Opening(), a_lease()
    await world.win(lease)

    outcome = await world.check(lease)
    await world.check(lease)

    assert outcome.phase is Phase.WAITING_FOR_MANIFEST
    assert list(world.engine.opened) == [namespace_name(lease)]
    await world.send(lease, a_group())
    await world.converge(lease)
    assert world.engine.opened == {} and world.engine.calls[0] == (Operation.UP, namespace_name(lease))


async def test_one_that_was_given_up_or_not_taken_is_not_offered_again() -> None:
    world, lease, late = Opening(), a_lease(), a_lease(2)
    world.engine.room = 1
    for each in (lease, late):
        await world.win(each)
        await world.check(each)
    assert list(world.engine.opened) == [namespace_name(lease)]

    world.engine.opened.clear()  # the time is over
    await world.check(lease)
    await world.check(late)

    assert world.engine.opened == {}


async def test_after_a_restart_no_more_are_opened_than_there_is_room_for() -> None:
    world = Opening()
    leases = [a_lease(number) for number in range(1, 8)]
    for lease in leases:
        await world.win(lease)
    for _ in range(2):
        world.restart()
        for lease in leases:
            await world.check(lease)

    assert len(world.engine.opened) == world.engine.room == 4


@pytest.mark.parametrize("state", [LeaseState.CLOSED, LeaseState.INSUFFICIENT_FUNDS])
async def test_one_that_looks_closed_is_ended_at_once_before_the_proof(state: LeaseState) -> None:
    world, lease = Opening(), a_lease()
    await world.win(lease)
    await world.check(lease)
    world.chain.put_lease(lease, state)

    await world.check(lease)

    assert world.engine.opened == {}
    assert (await world.converge(lease)).phase is Phase.CLOSED
    assert world.leftovers(lease) == []


async def test_a_node_that_is_away_ends_nothing() -> None:
    world, lease = Opening(), a_lease()
    await world.win(lease)
    await world.check(lease)
    world.chain.lies.append(ChainError("http://node", "no answer"))

    await world.check(lease)

    assert list(world.engine.opened) == [namespace_name(lease)]


async def test_switched_off_nothing_is_offered() -> None:
    world, lease = World(), a_lease()
    await world.win(lease)
    await world.check(lease)

    assert world.engine.opened == {}


@pytest.mark.parametrize(("told", "label"), [("4", BEFORE_THE_MANIFEST), ("0", "12")])
def test_the_first_version_of_a_lease_is_made_so_that_it_fits(
    told: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESSOR_OPEN_UPDATES", told)
    specs = spec_maker(load_settings(), FACTS)
    record = ManifestRecord(a_lease(), a_group(), {}, "12")

    first = specs.make(SpecInputs(record))
    again = specs.make(SpecInputs(record, first.model_copy(update={"first_resource_version": "7"})))

    assert (first.first_resource_version, first.services[0].resource_version) == (label, "12")
    assert again.first_resource_version == "7", "what runs keeps its label"


async def test_one_that_ran_before_is_not_offered_when_its_manifest_and_its_stack_are_lost() -> None:
    world, lease = Opening(), a_lease()
    await world.run(lease, a_group())
    await world.cluster.delete(MANIFEST, namespace_name(lease), namespace=world.config.records)
    world.engine.state.clear()
    world.restart()

    assert (await world.check(lease)).phase is Phase.WAITING_FOR_MANIFEST
    assert world.engine.opened == {}
