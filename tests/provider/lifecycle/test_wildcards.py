"""Wildcard hostnames from a manifest to the routes of the edge, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lease.hostnames import route_name
from lease.ids import namespace_name
from lease.spec import ClusterFacts, IngressMode
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, HostnameRules
from provider.claims.moves import read_move
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import HTTP_ROUTE, INGRESS, PROVIDER_HOST, SECRET
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

FIRST, SECOND, THEIRS = a_lease(1), a_lease(2), a_lease(3, owner=OTHER)
WILD, NAME = "*.example.com", "a.example.com"


def wild_world(**rules: object) -> World:
    return World(hostnames=HostnameRules(wildcards=True, **rules))  # type: ignore[arg-type]


async def close(world: World, lease: object) -> None:
    world.chain.put_lease(lease, LeaseState.CLOSED)  # type: ignore[arg-type]
    await world.converge(lease)  # type: ignore[arg-type]


async def test_a_wildcard_is_claimed_served_and_given_back() -> None:
    world = wild_world()
    await world.run(FIRST, a_group(hosts=[WILD]))
    route = world.cluster.find(INGRESS, route_name(WILD), namespace_name(FIRST))
    assert route is not None and route["spec"]["rules"][0]["host"] == WILD
    assert world.cluster.named(PROVIDER_HOST) == [route_name(WILD)]
    writes = world.cluster.writes
    assert (await world.converge(FIRST)).phase is Phase.RUNNING
    assert world.cluster.writes == writes, "its claim is found again"
    await close(world, FIRST)
    assert world.leftovers(FIRST) == [] and world.cluster.named(PROVIDER_HOST) == []


async def test_a_wildcard_becomes_an_http_route() -> None:
    world = wild_world()
    world.facts = ClusterFacts(network_policies=False, ingress_mode=IngressMode.GATEWAY_API)
    world.restart()
    await world.run(FIRST, a_group(hosts=[WILD]))
    route = world.cluster.find(HTTP_ROUTE, route_name(WILD), namespace_name(FIRST))
    assert route is not None and route["spec"]["hostnames"] == [WILD]


async def test_a_name_below_another_owner_s_wildcard_is_refused_until_the_wildcard_is_free() -> None:
    world = wild_world()
    await world.run(FIRST, a_group(hosts=[WILD]))
    await world.win(THEIRS, a_group(hosts=[NAME]))
    outcome = await world.converge(THEIRS)
    assert outcome.phase is Phase.BLOCKED and outcome.reason.endswith(f'host "{NAME}" in use')
    assert FIRST.owner not in outcome.reason
    await close(world, FIRST)
    assert (await world.converge(THEIRS)).phase is Phase.RUNNING


async def test_a_released_wildcard_keeps_the_names_below_it_for_its_owner_for_a_while() -> None:
    world = wild_world(cooldown_s=60.0)
    await world.run(FIRST, a_group(hosts=[WILD]))
    await close(world, FIRST)
    assert world.cluster.find(SECRET, "released-hostnames", "lease") is not None
    await world.win(THEIRS, a_group(hosts=[NAME]))
    outcome = await world.converge(THEIRS)
    assert outcome.phase is Phase.BLOCKED and "was released by another account" in outcome.reason
    await world.run(SECOND, a_group(hosts=[NAME]))
    assert world.cluster.named(PROVIDER_HOST) == [NAME]


async def test_a_name_that_a_lease_went_without_may_be_covered_by_another_owner_meanwhile() -> None:
    """The lease goes on without it, with a remark, and gets it when the wildcard is free."""
    world = wild_world()
    await world.run(FIRST, a_group(hosts=[NAME]))
    await world.run(SECOND, a_group(hosts=[NAME, "b.example.org"]))
    await close(world, FIRST)
    await world.run(THEIRS, a_group(hosts=[WILD]))
    await world.send(SECOND, a_group("nginx:2", hosts=[NAME, "b.example.org"]))
    outcome = await world.converge(SECOND)
    assert outcome.phase is Phase.RUNNING and "another lease has it" in outcome.remark
    assert world.reconciler.memories.waiting_for(WILD) == [SECOND]
    await close(world, THEIRS)
    await world.converge(SECOND)
    assert world.cluster.named(PROVIDER_HOST) == [NAME, "b.example.org"]


async def test_a_wildcard_migrates_between_two_leases_of_its_owner() -> None:
    world = wild_world()
    world.config = replace(world.config, routes_overlap=True)
    world.restart()
    await world.run(FIRST, a_group(hosts=[WILD]))
    await world.run(SECOND, a_group(hosts=[WILD]))
    await world.parts.claims.migrate_hosts(SECOND, [HostnameClaim(WILD, SECOND, "web", 80)])
    for _ in range(8):
        for lease in (FIRST, SECOND):
            await world.converge(lease)
            await world.elapse(1)
    assert world.cluster.find(INGRESS, route_name(WILD), namespace_name(FIRST)) is None
    assert world.cluster.find(INGRESS, route_name(WILD), namespace_name(SECOND)) is not None
    claim = world.cluster.find(PROVIDER_HOST, route_name(WILD), "lease")
    assert claim is not None
    assert (read_move(claim).sequence, read_move(claim).source) == (2, None)


async def test_an_unclaimed_name_below_another_owner_s_wildcard_does_not_migrate() -> None:
    world = wild_world()
    await world.run(FIRST, a_group(hosts=[WILD]))
    with pytest.raises(HostnameRefusedError, match="in use"):
        await world.parts.claims.migrate_hosts(THEIRS, [HostnameClaim(NAME, THEIRS, "web", 80)])


async def test_a_lease_keeps_its_wildcard_when_the_operator_stops_allowing_them() -> None:
    world = wild_world()
    await world.run(FIRST, a_group(hosts=[WILD]))
    world.config = replace(world.config, hostnames=HostnameRules())
    world.restart()
    await world.send(FIRST, a_group("nginx:2", hosts=[WILD]))
    assert (await world.converge(FIRST)).phase is Phase.RUNNING
    await world.win(THEIRS, a_group(hosts=["*.example.org"]))
    assert (await world.converge(THEIRS)).phase is Phase.BLOCKED
