"""A lease whose newest version cannot be made: the last complete one is kept up, and gives up what was migrated."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence

import pytest

from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.claims.hostnames import HostnameClaim
from provider.claims.leased_ips import wanted_addresses
from provider.claims.moves import read_move
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Outcome, Phase, tenant_text
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import INGRESS, NAMESPACE, PROVIDER_HOST, SERVICE
from provider.records.applied import Attempt
from stacks.common.results import Operation
from tests.provider.lifecycle.test_health import a_pod, waiting
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

L, SECOND, THEIRS = a_lease(), a_lease(2), a_lease(9, owner=OTHER)
HOST, FOREIGN = "a.example.com", "theirs.example.com"
WEB = ("v1", "Service", namespace_name(L), "web")
WORKLOAD = ("apps/v1", "Deployment", namespace_name(L), "web")
IN_USE = f'hostname not allowed: host "{FOREIGN}" in use'
NO_ADDRESS = "no leased address is free; the lease gets the first one that is"


class Cardless(World):
    """The cards of a second image are gone."""

    def build_spec(self, inputs: SpecInputs) -> LeaseSpec:
        (service,) = inputs.record.group.services or ()
        if service.image == "cards:2":
            raise SpecRefused("no GPU is reserved for service web: reserve again")
        return super().build_spec(inputs)


async def foreign_hostname(*, hosts: Sequence[str] = (), overlap: bool = False, ip: str = "") -> World:
    """L runs nginx:1, and its newest manifest asks for a hostname of another owner."""
    world = World(routes_overlap=overlap)
    await world.run(THEIRS, a_group(hosts=[FOREIGN]))
    await world.run(L, a_group(hosts=hosts, ip=ip))
    await world.send(L, a_group("nginx:2", hosts=[*hosts, FOREIGN], ip=ip))
    return world


async def no_address() -> World:
    world = World(ip_ranges=("203.0.113.1",))
    await world.run(THEIRS, a_group(ip="meow"))
    await world.run(L, a_group())
    await world.send(L, a_group("nginx:2", ip="purr"))
    return world


async def no_card() -> World:
    world = Cardless()
    await world.run(L, a_group())
    await world.send(L, a_group("cards:2"))
    return world


CAUSES: dict[str, tuple[Callable[[], Awaitable[World]], str]] = {
    "hostname": (foreign_hostname, IN_USE),
    "address": (no_address, "free"),
    "card": (no_card, "reserve again"),
}


async def blocked(world: World) -> Outcome:
    outcome = await world.converge(L)
    assert outcome.phase is Phase.BLOCKED and world.image(L) == "nginx:1"
    return outcome


def routes(world: World) -> list[int]:
    """The leases (their dseq) that publish HOST."""
    return [one.dseq for one in (L, SECOND) if world.cluster.find(INGRESS, HOST, namespace_name(one)) is not None]


def source(world: World) -> LeaseId | None:
    claim = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert claim is not None
    return read_move(claim).source


async def rounds(world: World, count: int = 15) -> list[list[int]]:
    seen = [routes(world)]
    for _ in range(count):
        for lease in (L, SECOND):
            await world.check(lease)
            world.cluster.settle()
            if routes(world) != seen[-1]:
                seen.append(routes(world))
        await world.elapse(1)
    return seen


@pytest.mark.parametrize("cause", CAUSES)
async def test_what_is_deleted_by_hand_comes_back_whatever_blocks_the_newest_version(cause: str) -> None:
    prepare, text = CAUSES[cause]
    world = await prepare()
    assert text in (await blocked(world)).reason
    for key in (WEB, WORKLOAD):
        world.cluster.remove(key)
        world.restart()
        outcome = await blocked(world)
        assert text in outcome.reason and key in world.cluster.objects
    assert world.applied(L).attempt is None


async def test_what_a_hand_has_added_is_taken_back() -> None:
    world = await foreign_hostname()
    await blocked(world)
    changed = copy.deepcopy(world.cluster.objects[WEB])
    changed["spec"]["selector"]["somebody"] = "else"
    world.cluster.put(changed)
    world.restart()
    await blocked(world)
    assert "somebody" not in world.cluster.objects[WEB]["spec"]["selector"]


async def test_a_namespace_that_was_deleted_is_made_again_with_the_version_that_ran() -> None:
    world = await foreign_hostname()
    await blocked(world)
    world.cluster.remove(("v1", "Namespace", "", namespace_name(L)))
    world.cluster.settle()
    await blocked(world)
    assert world.cluster.find(NAMESPACE, namespace_name(L)) is not None


async def test_nothing_is_written_while_nothing_has_changed() -> None:
    world = await foreign_hostname(hosts=[HOST], ip="meow")
    await blocked(world)
    writes, calls = world.cluster.writes, len(world.engine.calls)
    for _ in range(3):
        assert (await world.check(L)).again_in == 30.0
    assert (world.cluster.writes, len(world.engine.calls)) == (writes, calls)


@pytest.mark.parametrize(("overlap", "seen"), [(False, [[1], [], [2]]), (True, [[1], [1, 2], [2]])])
async def test_a_hostname_that_was_migrated_away_is_given_up(overlap: bool, seen: list[list[int]]) -> None:
    """Seed 31 of the simulation."""
    world = await foreign_hostname(hosts=[HOST], overlap=overlap)
    await blocked(world)
    await world.run(SECOND, a_group(hosts=[HOST]))
    await world.parts.claims.migrate_hosts(SECOND, [HostnameClaim(HOST, SECOND, "web", 80)])
    assert await rounds(world) == seen
    assert source(world) is None and world.applied(L).moved == {HOST}
    await blocked(world)


async def test_a_hostname_that_was_migrated_away_does_not_return_when_the_newest_version_is_free() -> None:
    world = await foreign_hostname(hosts=[HOST])
    await world.run(SECOND, a_group(hosts=[HOST]))
    await world.parts.claims.migrate_hosts(SECOND, [HostnameClaim(HOST, SECOND, "web", 80)])
    await rounds(world)
    for ended in (SECOND, THEIRS):
        world.chain.put_lease(ended, LeaseState.CLOSED)
        await world.converge(ended)
    outcome = await world.converge(L)
    assert (outcome.phase, world.image(L), routes(world)) == (Phase.RUNNING, "nginx:2", [])
    assert "migrated" in outcome.reason and FOREIGN in world.cluster.named(INGRESS)


async def test_a_port_that_was_migrated_away_is_given_up() -> None:
    world = await foreign_hostname(ip="meow")
    await blocked(world)
    await world.run(SECOND, a_group(ip="meow"))
    await world.parts.claims.migrate_ports(SECOND, wanted_addresses(SECOND, a_group(ip="meow")))
    await rounds(world)
    found = [one.dseq for one in (L, SECOND) if world.cluster.find(SERVICE, "web-ip-80-tcp", namespace_name(one))]
    assert found == [2]


async def test_claims_of_the_newest_version_are_kept_until_it_is_applied() -> None:
    """They were taken by a version that the provider could not complete before the next manifest came."""
    world = await foreign_hostname()
    await world.send(L, a_group("nginx:2", hosts=[HOST]))
    world.engine.faults.append(Fault(error="connection refused"))
    await world.check(L)
    await world.send(L, a_group("nginx:3", hosts=[HOST, FOREIGN]))
    await blocked(world)
    assert HOST in world.cluster.named(PROVIDER_HOST) and routes(world) == []


async def test_a_version_that_was_begun_is_taken_back() -> None:
    world = await foreign_hostname()
    await world.send(L, a_group("nginx:2"))
    world.engine.faults.append(Fault(error="connection refused", objects=99))
    await world.check(L)
    assert world.image(L) == "nginx:2" and world.applied(L).attempt is not None
    await world.send(L, a_group("nginx:3", hosts=[FOREIGN]))
    await blocked(world)
    assert world.applied(L).attempt is None


async def test_the_reason_has_the_trouble_of_what_runs_after_why_the_newest_is_blocked() -> None:
    world = await foreign_hostname()
    await blocked(world)
    workload = world.cluster.objects[WORKLOAD]
    world.cluster.put({**workload, "status": {"observedGeneration": 1}}, status=True)
    world.cluster.put(a_pod(waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}})))
    outcome = await world.check(L)
    assert outcome.phase is Phase.BLOCKED
    assert outcome.reason.startswith(IN_USE) and "exit code 3" in outcome.reason


async def test_a_tenant_without_a_free_address_reads_nothing_of_the_providers_settings() -> None:
    world = await no_address()
    assert (await blocked(world)).remark == NO_ADDRESS
    assert tenant_text(world.reconciler.statuses[L]) == f"blocked: {NO_ADDRESS}"


async def test_trouble_of_the_engine_while_it_restores_is_tried_again_and_told() -> None:
    world = await foreign_hostname()
    await blocked(world)
    world.cluster.remove(WEB)
    world.restart()
    world.engine.faults += [None, Fault(error="connection refused"), Fault(error="something is invalid: no")]
    for text in ("connection refused", "the previous version could not be restored: something is invalid"):
        outcome = await world.check(L)
        assert outcome.phase is Phase.BLOCKED and outcome.retry and IN_USE in outcome.reason
        assert text in outcome.reason and (outcome.again_in or 0) > 0
    await blocked(world)
    assert WEB in world.cluster.objects


async def test_a_kill_while_a_hostname_is_given_up_loses_nothing() -> None:
    world = await foreign_hostname(hosts=[HOST])
    await blocked(world)
    await world.run(SECOND, a_group(hosts=[HOST]))
    await world.parts.claims.migrate_hosts(SECOND, [HostnameClaim(HOST, SECOND, "web", 80)])
    world.engine.faults.append(Fault(kill=True))
    with pytest.raises(Killed):
        await world.check(L)
    world.restart()
    assert (await rounds(world))[-1] == [2]
    assert world.image(L) == "nginx:1"


async def test_a_lease_that_an_operator_recreates_is_made_anew_when_its_newest_version_is_free() -> None:
    world = await foreign_hostname()
    assert await world.reconciler.recreate(L)
    await blocked(world)
    assert world.applied(L).anew
    world.chain.put_lease(THEIRS, LeaseState.CLOSED)
    await world.converge(THEIRS)
    await world.converge(L)
    assert world.image(L) == "nginx:2" and not world.applied(L).anew


async def test_the_version_that_runs_sent_again_is_not_refused_by_what_was_blocked() -> None:
    world = await foreign_hostname()
    await blocked(world)
    world.cluster.remove(WEB)
    world.restart()
    await blocked(world)
    await world.send(L, a_group())
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_a_blocked_version_after_a_refused_one_leaves_the_refusal_as_it_is() -> None:
    world = await foreign_hostname()
    world.engine.refused["bad:1"] = "exceeded quota: nothing left"
    await world.send(L, a_group("bad:1"))
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    refused = world.applied(L).attempt
    await world.send(L, a_group("nginx:2", hosts=[FOREIGN]))
    await blocked(world)
    assert isinstance(refused, Attempt) and world.applied(L).attempt == refused


async def test_a_first_version_that_is_blocked_makes_nothing() -> None:
    world = World()
    await world.run(THEIRS, a_group(hosts=[FOREIGN]))
    await world.win(L, a_group(hosts=[FOREIGN]))
    assert (await world.converge(L)).phase is Phase.BLOCKED
    assert Operation.UP not in [what for what, stack in world.engine.calls if stack == namespace_name(L)]
