"""Hostnames that belong to somebody else, as the lease loop sees them: automatic names and claims are never taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lease.build import SpecSettings
from lease.ids import LeaseId, auto_hostname
from lease.spec import HostnameSpec
from provider.claims.hostnames import HostnameRules, host_object
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import HTTP_ROUTE, INGRESS, PROVIDER_HOST, Kind
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

DOMAIN = "ingress.example.com"
VICTIM = a_lease(1)
THIEF = a_lease(2, owner=OTHER)
NAME = auto_hostname(VICTIM, "web", DOMAIN)


def static_world() -> World:
    world = World()
    world.settings = SpecSettings(static_hosts=True, ingress_domain=DOMAIN)
    world.config = replace(world.config, hostnames=HostnameRules((), "provider.example.com", DOMAIN, True))
    world.restart()
    return world


def holder(world: World, hostname: str) -> str:
    claim = world.cluster.find(PROVIDER_HOST, hostname, "lease")
    assert claim is not None
    return str(claim["spec"]["owner"])


def old_claim(world: World, lease: LeaseId, hostname: str) -> None:
    """A claim that an earlier version let a tenant make."""
    host = HostnameSpec.model_construct(hostname=hostname, service="web", external_port=80)  # type: ignore[call-arg]
    world.cluster.put(host_object(lease, host, namespace="lease"))


@pytest.mark.parametrize("first", ["the thief", "the victim"])
async def test_an_automatic_name_is_its_lease_s_whoever_comes_first(first: str) -> None:
    world = static_world()
    if first == "the victim":
        await world.run(VICTIM, a_group())
    await world.win(THIEF, a_group(hosts=[NAME]))
    outcome = await world.check(THIEF)
    assert outcome.phase is Phase.BLOCKED
    assert f'domain "{NAME}" is blocked by this provider' in outcome.reason or "in use" in outcome.reason
    await world.run(VICTIM, a_group())
    assert holder(world, NAME) == VICTIM.owner
    assert world.reconciler.statuses[VICTIM].phase is Phase.RUNNING


async def test_a_claim_that_a_thief_made_before_is_not_overwritten_and_the_victim_runs_without_the_name() -> None:
    world = static_world()
    old_claim(world, THIEF, NAME)
    await world.win(THIEF, a_group(hosts=[NAME]))
    await world.converge(THIEF)
    spec = await world.run(VICTIM, a_group(hosts=["shop.example.org"]))
    assert holder(world, NAME) == THIEF.owner
    assert [host.hostname for host in spec.hostnames] == ["shop.example.org"]
    assert world.reconciler.statuses[VICTIM].phase is Phase.RUNNING
    world.chain.put_lease(THIEF, LeaseState.CLOSED)
    await world.converge(THIEF)
    await world.send(VICTIM, a_group("nginx:2", hosts=["shop.example.org"]))
    await world.converge(VICTIM)
    assert holder(world, NAME) == VICTIM.owner


async def test_a_claim_is_never_overwritten_whatever_gives_a_spec_its_hostnames() -> None:
    world = static_world()
    world.config = replace(world.config, hostnames=HostnameRules())  # the rules know nothing of automatic names
    world.restart()
    old_claim(world, THIEF, NAME)
    await world.win(VICTIM, a_group())
    outcome = await world.check(VICTIM)
    assert outcome.phase is Phase.BLOCKED and f'host "{NAME}" in use' in outcome.reason
    assert holder(world, NAME) == THIEF.owner


@pytest.mark.parametrize(
    ("kind", "spec"),
    [(INGRESS, {"rules": [{"host": "grafana.example.org"}]}), (HTTP_ROUTE, {"hostnames": ["grafana.example.org"]})],
    ids=["Ingress", "HTTPRoute"],
)
async def test_a_host_that_an_operator_s_route_serves_is_refused_and_a_name_that_runs_stays(
    kind: Kind, spec: dict[str, Any]
) -> None:
    world = static_world()
    await world.run(VICTIM, a_group(hosts=["www.example.org"]))
    for name, hosts in (("grafana", spec), ("other", {"rules": [{"host": "www.example.org"}]})):
        meta = {"name": name, "namespace": "metallb-system"}
        kind_ = kind if name == "grafana" else INGRESS
        world.cluster.put({"apiVersion": kind_.api_version, "kind": kind_.kind, "metadata": meta, "spec": hosts})
    await world.win(THIEF, a_group(hosts=["grafana.example.org"]))
    outcome = await world.check(THIEF)
    assert outcome.phase is Phase.BLOCKED and 'host "grafana.example.org" in use' in outcome.reason
    assert "grafana.example.org" not in world.cluster.named(PROVIDER_HOST)
    await world.send(VICTIM, a_group("nginx:2", hosts=["www.example.org"]))
    assert (await world.converge(VICTIM)).phase is Phase.RUNNING
    assert world.image(VICTIM) == "nginx:2"


async def test_a_wildcard_of_the_operator_over_the_ingress_domain_takes_no_automatic_name() -> None:
    world = static_world()
    meta = {"name": "wildcard", "namespace": "metallb-system"}
    spec = {"rules": [{"host": f"*.{DOMAIN}"}]}
    world.cluster.put({"apiVersion": INGRESS.api_version, "kind": "Ingress", "metadata": meta, "spec": spec})
    made = await world.run(VICTIM, a_group())
    assert [host.hostname for host in made.hostnames] == [NAME]
