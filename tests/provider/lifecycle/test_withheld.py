"""Parts of an accepted manifest that another lease has: they are told, and given as soon as they are free."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lease.ids import namespace_name
from lease.manifest import Expose, Group, HttpOptions
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import INGRESS, PROVIDER_HOST, PROVIDER_LEASED_IP, SERVICE
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

FIRST, SECOND = a_lease(1), a_lease(2)
NOTICE = {
    "host": "hostname a.example.com is not served: lease 1/1/1 has it",
    "ip": "port 80/TCP of service web has no address: lease 1/1/1 has it on the same IP endpoint",
}
GROUPS = {"host": a_group(hosts=["a.example.com"]), "ip": a_group(ip="meow")}


@pytest.mark.parametrize("what", ["host", "ip"])
async def test_a_running_lease_says_what_of_its_manifest_another_lease_has(what: str) -> None:
    world = World()
    await world.run(FIRST, GROUPS[what])
    await world.run(SECOND, GROUPS[what])
    status = world.reconciler.statuses[SECOND]
    assert (status.phase, status.reason) == (Phase.RUNNING, NOTICE[what])
    assert tenant_text(status) == NOTICE[what]
    assert tenant_text(world.reconciler.statuses[FIRST]) == ""
    world.restart()
    assert (await world.converge(SECOND)).reason == NOTICE[what]


@pytest.mark.parametrize("what", ["host", "ip"])
async def test_what_another_lease_had_is_given_when_that_lease_ends(what: str) -> None:
    world = World()
    await world.run(FIRST, GROUPS[what])
    await world.run(SECOND, GROUPS[what])
    world.chain.put_lease(FIRST, LeaseState.CLOSED)
    await world.converge(FIRST)
    outcome = await world.converge(SECOND)
    assert (outcome.phase, outcome.reason, outcome.waits_for) == (Phase.RUNNING, "", frozenset())
    spec = world.applied(SECOND).spec
    assert spec is not None and (spec.hostnames if what == "host" else spec.leased_ips)


@pytest.mark.parametrize("what", ["host", "ip"])
async def test_the_end_of_a_claim_asks_for_a_check_of_the_lease_that_waits_for_it(what: str) -> None:
    world = World()
    await world.run(FIRST, GROUPS[what])
    await world.run(SECOND, GROUPS[what])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.loop.run())
        await world.elapse(5)
        world.put_manifest(FIRST, a_group())
        await world.elapse(60)  # much sooner than the next check of all leases
        running.cancel()
    kind = PROVIDER_HOST if what == "host" else PROVIDER_LEASED_IP
    (claim,) = world.cluster.named(kind)
    held = world.cluster.find(kind, claim, "lease")
    assert held is not None and held["metadata"]["labels"]["akash.network/lease.id.dseq"] == "2"


async def test_a_hostname_is_given_only_when_its_old_route_is_gone() -> None:
    """The edge refuses a second Ingress with one host, and that refusal would stand until the next manifest."""
    world = World()
    await world.run(FIRST, GROUPS["host"])
    await world.run(SECOND, GROUPS["host"])
    claim = world.cluster.find(PROVIDER_HOST, "a.example.com", "lease")
    assert claim is not None
    world.cluster.remove(("akash.network/v2beta2", "ProviderHost", "lease", "a.example.com"))
    outcome = await world.check(SECOND)
    assert "a.example.com is not served: the lease that had it is still giving it back" in outcome.reason
    assert outcome.again_in == 15.0 and world.cluster.named(PROVIDER_HOST) == []
    world.cluster.remove(("networking.k8s.io/v1", "Ingress", namespace_name(FIRST), "a.example.com"))
    await world.converge(SECOND)
    assert world.cluster.find(INGRESS, "a.example.com", namespace_name(SECOND)) is not None


async def test_a_leased_address_that_no_service_has_is_waited_for_and_told() -> None:
    world = World()
    world.cluster.metallb = False
    await world.win(FIRST, a_group(ip="meow"))
    outcome = await world.converge(FIRST)
    assert outcome.phase is Phase.APPLYING
    assert outcome.reason == "service web: port 80/TCP waits for its address 203.0.113.1"
    assert tenant_text(world.reconciler.statuses[FIRST]) == f"starting: {outcome.reason}"
    world.cluster.metallb = True
    assert (await world.converge(FIRST)).phase is Phase.RUNNING
    (service,) = (item for item in await world.cluster.list(SERVICE) if item["spec"]["type"] == "LoadBalancer")
    world.cluster.put({**service, "status": {"loadBalancer": {}}}, status=True)
    lost = await world.check(FIRST)
    assert (lost.phase, lost.of_the_tenant) == (Phase.DEGRADED, False)


@pytest.mark.parametrize(
    ("ignored", "named"),
    [
        (("max_body_size", "read_timeout", "next_cases"), "max_body_size, read_timeout"),
        (("read_timeout",), "read_timeout"),
        (("proxy_buffer_size",), ""),
        ((), ""),
    ],
)
async def test_a_tenant_reads_which_http_options_the_edge_does_not_apply(ignored: tuple[str, ...], named: str) -> None:
    world = World(ignored_options=frozenset(ignored))
    (service,) = a_group().services or ()
    options = HttpOptions(max_body_size=5, read_timeout=1000)
    exposes = (Expose(80, global_=True, hosts=("a.example.com",), http_options=options), Expose(81, global_=True))
    await world.run(FIRST, Group("west", (replace(service, expose=exposes),)))
    text = f"service web: port 80: this provider's edge does not apply its HTTP options ({named})"
    status = world.reconciler.statuses[FIRST]
    assert (status.phase, tenant_text(status)) == (Phase.RUNNING, text if named else "")


async def test_an_expose_that_loses_its_port_in_its_own_manifest_is_told_too() -> None:
    world = World()
    (service,) = a_group().services or ()
    exposes = (Expose(80, global_=True, hosts=("a.example.com",)), Expose(8080, 80))
    await world.run(FIRST, Group("west", (replace(service, expose=exposes),)))
    status = world.reconciler.statuses[FIRST]
    text = "service web: port 8080 is not served as 80/TCP: an earlier expose has that port"
    assert (status.phase, status.reason, tenant_text(status)) == (Phase.RUNNING, text, text)
