"""Addresses of the operator's own IPAddressPools, which LESSOR_IP_POOLS names."""

from __future__ import annotations

from typing import Any

import pytest

from lease.ids import LeaseId, namespace_name
from provider.claims.pools import service_addresses
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import SERVICE
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

L, THEIRS, THIRD = a_lease(), a_lease(2, owner=OTHER), a_lease(3, owner=f"akash1{'q' * 38}")
NAMESPACE = "metallb-system"


def put_pool(world: World, name: str, *addresses: str) -> None:
    meta = {"name": name, "namespace": NAMESPACE}
    spec = {"addresses": list(addresses), "autoAssign": False}
    world.cluster.put({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": meta, "spec": spec})


def put_service(world: World, name: str, **parts: Any) -> None:
    spec = {"type": "LoadBalancer", **parts.pop("spec", {})}
    meta = {"name": name, "namespace": "lease", **parts.pop("meta", {})}
    obj = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    world.cluster.put(obj)
    if status := parts.pop("status", None):
        world.cluster.put(obj | {"status": {"loadBalancer": {"ingress": [{"ip": status}]}}}, status=True)


def service(world: World, lease: LeaseId) -> dict[str, Any]:
    found = world.cluster.find(SERVICE, "web-ip-80-tcp", namespace_name(lease))
    assert found is not None
    return found


def address(world: World, lease: LeaseId) -> str:
    ingress = service(world, lease)["status"]["loadBalancer"]["ingress"]
    return str(ingress[0]["ip"])


async def test_an_address_of_a_named_pool_is_asked_for_on_the_service_and_no_pool_is_made() -> None:
    world = World(ip_ranges=(), ip_pools=("public",))
    put_pool(world, "public", "198.51.100.0/30")
    await world.run(L, a_group(ip="meow"))
    annotations = service(world, L)["metadata"]["annotations"]
    assert annotations["metallb.io/address-pool"] == "public"
    assert annotations["metallb.io/loadBalancerIPs"] == "198.51.100.1" == address(world, L)
    assert world.pools() == ["public"]
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.converge(L)
    assert world.pools() == ["public"] and world.leftovers(L) == []


async def test_an_address_that_another_service_has_or_asks_for_is_not_leased() -> None:
    world = World(ip_ranges=(), ip_pools=("public",))
    put_pool(world, "public", "198.51.100.0/29")
    put_service(world, "given", status="198.51.100.1")
    put_service(world, "asking", spec={"loadBalancerIP": "198.51.100.2"})
    put_service(world, "new", meta={"annotations": {"metallb.io/loadBalancerIPs": "198.51.100.3,2001:db8::1"}})
    put_service(world, "inside", spec={"type": "ClusterIP", "loadBalancerIP": "198.51.100.4"})
    await world.run(L, a_group(ip="meow"))
    await world.run(THEIRS, a_group(ip="meow"))
    assert (address(world, L), address(world, THEIRS)) == ("198.51.100.4", "198.51.100.5")


async def test_two_leases_of_one_owner_share_an_address_of_the_pool_and_keep_it() -> None:
    world = World(ip_ranges=(), ip_pools=("public",))
    put_pool(world, "public", "198.51.100.0/29")
    second = a_lease(4)
    one = await world.run(L, a_group(ip="meow"))
    two = await world.run(second, a_group(ip="meow", ip_port=81))
    assert one.leased_ips[0].address == two.leased_ips[0].address
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.converge(L)
    world.restart()
    assert (await world.converge(second)).phase is Phase.RUNNING
    assert world.applied(second).spec == two


async def test_ranges_come_first_and_a_range_inside_a_named_pool_is_leased_from_it() -> None:
    world = World(ip_ranges=("203.0.113.1", "198.51.100.6"), ip_pools=("public",))
    put_pool(world, "public", "198.51.100.4-198.51.100.6")
    found = [(await world.run(lease, a_group(ip="meow"))).leased_ips[0] for lease in (L, THEIRS, THIRD)]
    assert [one.address for one in found] == ["203.0.113.1", "198.51.100.6", "198.51.100.4"]
    assert [one.pool for one in found] == ["", "public", "public"]


async def test_a_pool_that_is_not_named_gives_no_address() -> None:
    world = World(ip_ranges=("198.51.100.1-198.51.100.2",), ip_pools=("public",))
    put_pool(world, "private", "198.51.100.0/24")
    await world.win(L, a_group(ip="meow"))
    outcome = await world.check(L)
    assert outcome.phase is Phase.BLOCKED and "no free address" in outcome.reason
    put_pool(world, "public", "nonsense", "203.0.113.0/32", "203.0.113.9/32")
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert address(world, L) == "203.0.113.9"


async def test_a_lease_keeps_its_address_when_its_pool_is_named_no_more_and_when_its_claim_is_lost() -> None:
    world = World(ip_ranges=(), ip_pools=("public",))
    put_pool(world, "public", "198.51.100.0/29")
    put_service(world, "shop", status="198.51.100.1")
    before = await world.run(L, a_group(ip="meow"))
    world.cluster.remove(("v1", "Service", "lease", "shop"))
    for key in [key for key in world.cluster.objects if key[1] == "ProviderLeasedIP"]:
        world.cluster.remove(key)
    await world.converge(L)
    assert world.applied(L).spec == before and address(world, L) == "198.51.100.2"
    world.config = world.config.__class__(provider=world.config.provider, chain_id="akashnet-2")
    world.restart()
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.applied(L).spec == before


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        ({"spec": {"type": "LoadBalancer"}}, set()),
        ({"spec": None}, set()),
        ({"spec": {"type": "LoadBalancer", "loadBalancerIP": "nonsense"}}, set()),
        ({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"hostname": "a"}, {}]}}}, set()),
        ({"spec": {"type": "LoadBalancer", "loadBalancerIP": "2001:DB8:0::1"}}, {"2001:db8::1"}),
    ],
)
def test_what_is_no_address_of_a_service_is_none(obj: dict[str, Any], found: set[str]) -> None:
    assert service_addresses({"metadata": {}} | obj) == found
