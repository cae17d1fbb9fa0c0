"""A living lease, look by look: what is applied when, what is written down, what a crash leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lease.build import SpecSettings
from lease.ids import namespace_name
from lease.manifest import Group, Params, Permissions
from lease.spec import ClusterFacts
from provider.lifecycle.drift import NETWORK_POLICY
from provider.lifecycle.state import LEASE_STATE, STACK_RESULT, LeaseStatus, Phase, StackReport
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, SECRET
from provider.records.applied import applied_name
from stacks.common.priority import Priority
from stacks.common.results import Operation
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

L = a_lease()


async def test_a_lease_without_a_manifest_waits() -> None:
    world = World()
    await world.win(L)
    assert (await world.check(L)).phase is Phase.WAITING_FOR_MANIFEST
    assert world.engine.calls == [] and world.leftovers(L) == []


async def test_the_first_manifest_is_applied_once_and_runs_when_its_workloads_are_ready() -> None:
    world = World()
    await world.win(L, a_group())
    phases = [(await world.check(L)).phase, (await world.check(L)).phase]
    world.cluster.settle()
    phases.append((await world.check(L)).phase)
    assert phases == [Phase.APPLYING, Phase.APPLYING, Phase.RUNNING]
    assert world.engine.calls == [(Operation.UP, namespace_name(L))]


async def test_the_same_manifest_again_starts_no_engine_process() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    await world.send(L, a_group(hosts=["a.example.com"], ip="meow"))
    writes = world.cluster.writes
    assert (await world.check(L)).phase is Phase.RUNNING
    assert len(world.engine.calls) == 1 and world.cluster.writes == writes


async def test_a_rewritten_manifest_object_with_the_same_content_rolls_nothing() -> None:
    """A restored etcd gives other resourceVersions."""
    world = World()
    await world.run(L, a_group())
    obj = world.cluster.find(MANIFEST, namespace_name(L), "lease")
    assert obj is not None
    obj["metadata"]["resourceVersion"] = "987654"
    assert (await world.check(L)).phase is Phase.RUNNING
    assert len(world.engine.calls) == 1


async def test_a_changed_setting_is_applied_to_what_runs() -> None:
    world = World()
    await world.run(L, a_group())
    world.settings = SpecSettings(static_hosts=True, ingress_domain="ingress.example.com")
    await world.converge(L)
    assert len(world.engine.calls) == 2
    assert [name.endswith(".ingress.example.com") for name in world.cluster.named(PROVIDER_HOST)] == [True]


@pytest.mark.parametrize("state", [LeaseState.ACTIVE, LeaseState.RECLAIMING])
async def test_an_update_is_applied_while_the_lease_is_active_or_reclaiming(state: LeaseState) -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.chain.put_lease(L, state)
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    assert world.image(L) == "nginx:2"


@pytest.mark.parametrize("objects", range(6))
async def test_a_crash_in_the_middle_of_the_first_update_converges_after_a_restart(objects: int) -> None:
    world = World()
    await world.win(L, a_group(hosts=["a.example.com"], ip="meow"))
    world.engine.faults.append(Fault(kill=True, objects=objects))
    with pytest.raises(Killed):
        await world.check(L)
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_a_namespace_that_went_before_the_first_version_was_complete_is_made_anew() -> None:
    """The stack believes that it is there; nothing was ever complete that a record would name."""
    world = World()
    await world.win(L, a_group())
    world.engine.faults.append(Fault(error="connection refused", objects=1))
    await world.check(L)
    world.cluster.remove(("v1", "Namespace", "", namespace_name(L)))
    world.cluster.settle()
    assert (await world.check(L)).phase is Phase.APPLYING
    assert Operation.REFRESH in [operation for operation, _ in world.engine.calls]
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_a_crash_in_the_middle_of_an_update_that_is_then_withdrawn_restores_the_old_version() -> None:
    """Same hash as last applied is not enough: the stack may be half-way to something else."""
    world = World()
    await world.run(L, a_group("nginx:1"))
    await world.send(L, a_group("nginx:2"))
    world.engine.faults.append(Fault(kill=True, objects=99))
    with pytest.raises(Killed):
        await world.check(L)
    world.restart()
    assert world.image(L) == "nginx:2"
    await world.send(L, a_group("nginx:1"))
    await world.converge(L)
    assert world.image(L) == "nginx:1"


async def test_a_crash_between_a_refusal_and_the_way_back_goes_on_with_the_way_back() -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(L, a_group("bad:1"))
    await world.check(L)
    world.restart()
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    assert world.image(L) == "nginx:1"
    assert world.applied(L).attempt is not None and world.applied(L).attempt.restored  # type: ignore[union-attr]


async def test_a_way_back_that_is_refused_too_is_tried_again_and_never_takes_the_newest_version_instead() -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.engine.refused |= {"bad:1": "is invalid: no", "nginx:1": "exceeded quota"}
    await world.send(L, a_group("bad:1"))
    for _ in range(4):
        outcome = await world.check(L)
    assert outcome.retry and "could not be restored: exceeded quota" in outcome.reason
    assert [spec.services[0].image for spec in world.engine.specs] == ["nginx:1", "bad:1", *["nginx:1"] * 3]
    del world.engine.refused["nginx:1"]
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED


async def test_a_tenant_who_takes_a_refused_update_back_has_a_clean_record_again() -> None:
    world = World()
    await world.run(L, a_group("nginx:1"))
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(L, a_group("bad:1"))
    await world.converge(L)
    calls = len(world.engine.calls)
    await world.send(L, a_group("nginx:1"))
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.applied(L).attempt is None and len(world.engine.calls) == calls


async def test_a_preview_before_each_update_is_a_setting() -> None:
    world = World(preview_updates=True)
    await world.run(L, a_group("nginx:1"))
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    assert [operation for operation, _ in world.engine.calls] == [Operation.UP, Operation.PREVIEW, Operation.UP]


async def test_a_refused_first_version_says_so_and_is_taken_back() -> None:
    world = World()
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.win(L, a_group("bad:1"))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.FAILED and len(world.engine.calls) == 2
    assert world.cluster.named(DEPLOYMENT) == []
    await world.send(L, a_group("nginx:1"))
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_an_operator_may_ask_for_a_refused_version_again() -> None:
    world = World()
    world.engine.refused["good:1"] = "exceeded quota"
    await world.win(L, a_group("good:1"))
    await world.converge(L)
    world.engine.refused.clear()
    await world.reconciler.retry_refused(L)
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_the_tenants_secrets_do_not_come_back_in_a_reason() -> None:
    world = World()
    group = a_group("bad:1")
    assert group.services is not None
    service = replace(group.services[0], env=("TOKEN=hunter2hunter2",))
    world.engine.refused["bad:1"] = "env value hunter2hunter2 is invalid: no"
    await world.win(L, replace(group, services=(service,)))
    assert "hunter2" not in (await world.converge(L)).reason


async def test_nothing_is_applied_into_a_terminating_namespace() -> None:
    world = World()
    spec = await world.run(L, a_group())
    world.cluster.remove(("v1", "Namespace", "", spec.namespace))
    calls = len(world.engine.calls)
    outcome = await world.check(L)
    assert outcome.phase is Phase.BLOCKED and "terminating" in outcome.reason
    assert len(world.engine.calls) == calls
    world.cluster.settle()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.image(L) == "nginx:1"


async def test_a_workload_deleted_by_hand_comes_back() -> None:
    world = World()
    spec = await world.run(L, a_group())
    world.cluster.remove(("apps/v1", "Deployment", spec.namespace, "web"))
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert [operation for operation, _ in world.engine.calls] == [Operation.UP, Operation.REFRESH, Operation.UP]


async def test_hostnames_and_addresses_that_an_update_drops_are_given_back_with_their_pool() -> None:
    world = World()
    await world.run(L, a_group(hosts=["a.example.com", "b.example.com"], ip="meow"))
    await world.send(L, a_group(hosts=["b.example.com"]))
    await world.converge(L)
    assert world.cluster.named(PROVIDER_HOST) == ["b.example.com"]
    assert world.cluster.named(PROVIDER_LEASED_IP) == [] and world.pools() == []


async def test_another_owners_hostname_blocks_a_lease_and_the_running_version_stays() -> None:
    world = World()
    theirs = a_lease(9, owner=OTHER)
    await world.run(theirs, a_group(hosts=["a.example.com"]))
    await world.run(L, a_group())
    await world.send(L, a_group("nginx:2", hosts=["a.example.com"]))
    outcome = await world.check(L)
    assert outcome.phase is Phase.BLOCKED and 'host "a.example.com" in use' in outcome.reason
    assert world.applied(L).spec is not None
    world.chain.put_lease(theirs, LeaseState.CLOSED)
    await world.converge(theirs)
    await world.converge(L)
    assert world.image(L) == "nginx:2"


async def test_a_withheld_hostname_is_given_when_it_is_free_also_after_a_restart() -> None:
    world = World()
    first, second = a_lease(1), a_lease(2)
    await world.run(first, a_group(hosts=["a.example.com"]))
    spec = await world.run(second, a_group(hosts=["a.example.com", "b.example.com"]))
    assert [host.hostname for host in spec.hostnames] == ["b.example.com"]
    world.chain.put_lease(first, LeaseState.CLOSED)
    await world.converge(first)
    world.restart()
    await world.converge(second)
    assert world.cluster.named(PROVIDER_HOST) == ["a.example.com", "b.example.com"]
    assert world.applied(second).withheld == frozenset()


async def test_two_leases_of_one_owner_share_the_address_of_one_endpoint() -> None:
    world = World()
    one = await world.run(a_lease(1), a_group(ip="meow", ip_port=80))
    two = await world.run(a_lease(2), a_group(ip="meow", ip_port=81))
    assert one.leased_ips[0].address == two.leased_ips[0].address == "203.0.113.1"
    world.chain.put_lease(a_lease(1), LeaseState.CLOSED)
    await world.converge(a_lease(1))
    assert len(world.pools()) == 2
    world.chain.put_lease(a_lease(2), LeaseState.CLOSED)
    await world.converge(a_lease(2))
    assert world.pools() == []


async def test_an_address_whose_record_was_lost_is_found_again_in_its_pool() -> None:
    world = World()
    other = a_lease(2, owner=OTHER)
    await world.run(other, a_group(ip="purr"))
    before = await world.run(L, a_group(ip="meow"))
    world.chain.put_lease(other, LeaseState.CLOSED)
    await world.converge(other)
    for key in [key for key in world.cluster.objects if key[1] == "ProviderLeasedIP"]:
        world.cluster.remove(key)
    await world.converge(L)
    assert world.applied(L).spec == before and before.leased_ips[0].address == "203.0.113.2"


async def test_a_port_of_a_shared_address_stays_with_the_lease_that_took_it_first() -> None:
    world = World()
    await world.run(a_lease(1), a_group(ip="meow"))
    spec = await world.run(a_lease(2), a_group(ip="meow"))
    assert spec.leased_ips == ()


async def test_two_owners_get_two_addresses_and_a_third_waits_until_one_is_free() -> None:
    world = World()
    owners = [a_lease(n, owner=f"akash1{'qpzry9x8'[n] * 38}") for n in range(1, 4)]
    first = await world.run(owners[0], a_group(ip="meow"))
    second = await world.run(owners[1], a_group(ip="meow"))
    assert {first.leased_ips[0].address, second.leased_ips[0].address} == {"203.0.113.1", "203.0.113.2"}
    await world.win(owners[2], a_group(ip="meow"))
    assert (await world.check(owners[2])).phase is Phase.BLOCKED
    world.chain.put_lease(owners[0], LeaseState.CLOSED)
    await world.converge(owners[0])
    await world.converge(owners[2])
    assert world.applied(owners[2]).spec.leased_ips[0].address == "203.0.113.1"  # type: ignore[union-attr]


async def test_an_unreadable_manifest_blocks_only_its_own_lease() -> None:
    world = World()
    await world.run(L, a_group())
    other = a_lease(2)
    await world.win(other, a_group())
    for lease, damage in ((L, {"group": "west"}), (other, {"lease_id": {"dseq": "x"}})):
        obj = world.cluster.find(MANIFEST, namespace_name(lease), "lease")
        assert obj is not None
        obj["spec"] |= damage
        outcome = await world.check(lease)
        assert outcome.phase is Phase.BLOCKED and "cannot be read" in outcome.reason
    assert world.image(L) == "nginx:1"


async def test_an_unreadable_applied_record_is_never_guessed_at() -> None:
    world = World()
    await world.run(L, a_group())
    secret = world.cluster.find(SECRET, applied_name(L), "lease")
    assert secret is not None
    secret["data"]["spec"] = "bm90IGpzb24="
    await world.send(L, a_group("nginx:2"))
    outcome = await world.check(L)
    assert outcome.phase is Phase.BLOCKED and applied_name(L) in outcome.reason
    assert len(world.engine.calls) == 1


async def test_what_the_engine_did_and_every_change_of_state_is_published() -> None:
    world = World()
    async with world.bus.subscribe(LEASE_STATE, STACK_RESULT) as events:
        await world.run(L, a_group())
        told = [await anext(aiter(events)) for _ in range(4)]
    assert isinstance(told[1], StackReport) and told[1].result.changes[0].type == "Namespace"
    assert [getattr(event, "phase", None) for event in told if event is not told[1]] == [
        Phase.APPLYING,
        Phase.APPLYING,
        Phase.RUNNING,
    ]
    assert isinstance(told[0], LeaseStatus) and told[0].reason == "applying the first version"


async def test_a_defect_of_the_provider_is_named_and_tried_again() -> None:
    world = World()
    await world.win(L, a_group())

    def broken(operation: str, kind: str, name: str) -> None:
        raise RuntimeError("boom")

    world.cluster.before = broken
    outcome = await world.check(L)
    assert outcome.retry and "unexpected RuntimeError" in outcome.reason and "boom" not in outcome.reason


async def test_a_first_deployment_goes_before_a_repair_and_a_repair_before_an_update() -> None:
    world = World()
    await world.run(L, a_group())
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    world.cluster.remove(("apps/v1", "Deployment", namespace_name(L), "web"))
    await world.converge(L)
    assert world.engine.priorities == [Priority.FIRST, Priority.UPDATE, Priority.REPAIR]


@pytest.mark.parametrize("permitted", [True, False])
async def test_other_backends_of_the_api_server_touch_only_leases_whose_policies_name_them(*, permitted: bool) -> None:
    class Isolated(World):
        facts = ClusterFacts(api_server_endpoints=("203.0.113.1:6443",))

    world = Isolated()
    (service,) = a_group().services or ()
    params = Params(None, None, Permissions(("logs",))) if permitted else None
    await world.run(L, Group("west", (replace(service, params=params),)))
    calls = len(world.engine.calls)
    world.facts = world.facts.model_copy(update={"api_server_endpoints": ("203.0.113.2:6443",)})
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert len(world.engine.calls) - calls == int(permitted)
    policy = world.cluster.find(NETWORK_POLICY, "akash-apiserver-web", namespace_name(L))
    assert (policy is not None) is permitted and ("203.0.113.2" in str(policy)) is permitted
    assert (await world.converge(L)).phase is Phase.RUNNING and len(world.engine.calls) - calls == int(permitted)


async def test_the_claims_of_a_refused_version_are_not_given_back_and_taken_again_at_every_check() -> None:
    world = World()
    await world.run(L, a_group())
    world.engine.refused["nginx:2"] = "is invalid: no"
    await world.send(L, a_group("nginx:2", hosts=["b.example.com"]))
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    writes = world.cluster.writes
    for _ in range(3):
        await world.check(L)
    assert world.cluster.writes == writes
