"""The inventory follows the API server, and stays while the API server does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from components.labels import SHARING_KEY_HASH
from lease.ids import LeaseId, namespace_name
from provider.bus import INVENTORY_CHANGED
from provider.claims.leased_ips import AddressClaim, leased_ip_object
from provider.errors import ClusterError
from provider.inventory.address_pools import log_pooled_addresses
from provider.inventory.ledger import free_snapshot
from provider.inventory.snapshot import Inventory
from provider.inventory.watcher import InventoryWatcher
from provider.kube.labels import managed_labels
from provider.protocols.cluster import NODE
from provider.settings import Settings
from provider.units import parse_address_range
from tests.world.bus import FakeBus
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
LEASE = LeaseId("akash1tenant", 7, 1, 1, "akash1provider")


def node(name: str, cpu: str = "4", ready: str = "True") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"akash.network": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": cpu, "memory": "1Gi"}},
    }


@asynccontextmanager
async def watching(
    cluster: FakeCluster, **settings: Any
) -> AsyncIterator[tuple[InventoryWatcher, FakeBus, VirtualClock]]:
    bus, clock = FakeBus(), VirtualClock()
    watcher = InventoryWatcher(cluster, Settings(**settings), bus=bus, clock=clock)
    task = asyncio.create_task(watcher.run())
    await clock.settle()
    yield watcher, bus, clock
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_nodes_come_change_and_go() -> None:
    cluster = FakeCluster()
    cluster.put(node("a"))
    async with watching(cluster) as (watcher, bus, clock):
        await watcher.ready()
        assert [(one.name, one.capacity.cpu_milli) for one in watcher.inventory.nodes] == [("a", 4000)]
        cluster.put(node("b", "2"))
        await clock.advance(1)
        assert [one.name for one in watcher.inventory.nodes] == ["a", "b"]
        cluster.put(node("b", "2", ready="False"), status=True)
        await clock.advance(1)
        assert [one.name for one in watcher.inventory.nodes] == ["a"]
        assert len(bus.on(INVENTORY_CHANGED)) == 2  # the list and the first change settled together


async def test_an_api_server_that_fails_leaves_the_picture_and_is_asked_again() -> None:
    cluster = FakeCluster()
    cluster.put(node("a"))

    def down(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://fake", "connection refused")

    cluster.before = down
    async with watching(cluster) as (watcher, _, clock):
        assert watcher.inventory.nodes == ()
        cluster.before = lambda operation, kind, name: None
        await clock.advance(6)
        await watcher.ready()
        assert [one.name for one in watcher.inventory.nodes] == ["a"]


async def test_what_goes_between_the_list_and_the_watch_is_not_counted_on() -> None:
    cluster = FakeCluster()
    for name in ("a", "b"):
        cluster.put(node(name))
    lists = 0

    def go(operation: str, kind: str, name: str) -> None:
        """The watch lists again when it begins; at that moment a node has gone."""
        nonlocal lists
        lists += (operation, kind) == ("list", "Node")
        if lists == 2 and cluster.find(NODE, "a") is not None:
            cluster.remove(("v1", "Node", "", "a"))

    cluster.before = go
    async with watching(cluster) as (watcher, _, clock):
        await clock.advance(1)
        assert [one.name for one in watcher.inventory.nodes] == ["b"]


async def test_addresses_outside_our_ranges_do_not_count() -> None:
    cluster = FakeCluster()
    for port, address in ((80, "203.0.113.1"), (81, "198.51.100.1")):
        claim = AddressClaim(LEASE, "web", port, port, "TCP", f"key-{port}").at(address)
        stored = leased_ip_object(claim, namespace="lease")
        cluster.put({**stored, "status": {"address": address}})
    async with watching(cluster, ip_ranges=(parse_address_range("203.0.113.0/30"),)) as (watcher, _, _clock):
        await watcher.ready()
        assert watcher.inventory.address_count == 4
        assert watcher.inventory.addresses == {"203.0.113.1": frozenset({namespace_name(LEASE)})}


async def test_node_ports_of_every_service_of_the_cluster_count() -> None:
    cluster = FakeCluster()
    for space in ("a", "b"):
        cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    for namespace, name, ports in (("a", "x", (30001, 30002)), ("a", "y", (30003,)), ("b", "z", (0,))):
        listed = [{"port": 80, **({"nodePort": port} if port else {})} for port in ports]
        meta = {"name": name, "namespace": namespace}
        cluster.put({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": listed}})
    async with watching(cluster, node_port_range="31000-31099") as (watcher, _, _clock):
        await watcher.ready()
        assert watcher.inventory.node_port_count == 100
        assert watcher.inventory.node_ports == {"a": 3}


def pool(name: str, *addresses: str, key: str = "") -> dict[str, Any]:
    labels = {SHARING_KEY_HASH: key} if key else {}
    metadata = {"name": name, "namespace": "metallb-system", "labels": labels}
    return {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": metadata,
        "spec": {"addresses": list(addresses)},
    }


RANGES = tuple(parse_address_range(text) for text in ("203.0.113.0-203.0.113.9", "2001:db8::-2001:db8::ffff"))


@pytest.mark.parametrize(
    ("pools", "count", "pooled"),
    [
        ([], 10 + 2**16, {}),
        ([pool("own", "203.0.113.4-203.0.113.200")], 4 + 2**16, {"own": 6}),
        ([pool("a", "203.0.113.0-203.0.113.3"), pool("b", "2001:db8::/64")], 7, {"a": 3, "b": 2**16}),
        ([pool("elsewhere", "198.51.100.0/24")], 10 + 2**16, {}),
        ([pool("ip-abc", "203.0.113.1-203.0.113.1", key="abc")], 10 + 2**16, {}),
        ([pool("ip-def", "203.0.113.2-203.0.113.2", key="def")], 9 + 2**16, {}),
        ([pool("odd", "nonsense")], 10 + 2**16, {}),
    ],
    ids=[
        "none",
        "half",
        "both families, beside a claim",
        "elsewhere",
        "our claim's",
        "another provider's",
        "unreadable",
    ],
)
async def test_addresses_in_a_pool_of_metallb_cannot_be_leased(
    pools: list[dict[str, Any]], count: int, pooled: dict[str, int]
) -> None:
    """MetalLB refuses a second pool with the same address, so that the lease would never get it."""
    cluster = FakeCluster()
    claim = AddressClaim(LEASE, "web", 80, 80, "TCP", "key").at("203.0.113.1")
    cluster.put({**leased_ip_object(claim, namespace="lease"), "status": {"address": "203.0.113.1"}})
    async with watching(cluster, ip_ranges=RANGES) as (watcher, _, clock):
        await watcher.ready()
        for each in pools:
            cluster.put(each)
        await clock.advance(1)
        assert watcher.inventory.address_count == count
        assert watcher.inventory.pooled == pooled
        assert len(watcher.inventory.addresses) == 1


def balanced(name: str, address: str, **labels: str) -> dict[str, Any]:
    """A Service that MetalLB has given an address."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "lease", "labels": labels},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
    }


async def test_the_addresses_of_a_named_pool_can_be_leased_but_those_that_other_services_have() -> None:
    cluster = FakeCluster()
    claim = AddressClaim(LEASE, "web", 80, 80, "TCP", "key").at("198.51.100.2")
    async with watching(cluster, ip_ranges=RANGES[:1], ip_pools=("public", "absent")) as (watcher, _, clock):
        await watcher.ready()
        counted = [watcher.inventory.address_count]
        cluster.put(pool("public", "198.51.100.0/29"))
        cluster.put(pool("other", "198.51.100.32/29"))
        await clock.advance(1)
        counted.append(watcher.inventory.address_count)
        cluster.put(balanced("shop", "198.51.100.4"))
        cluster.put(balanced("elsewhere", "198.51.100.33"))
        cluster.put(balanced("leased", "198.51.100.2", **managed_labels(LEASE)))
        cluster.put({**leased_ip_object(claim, namespace="lease"), "status": {"address": claim.address}})
        await clock.advance(1)
        counted.append(watcher.inventory.address_count)
        assert list(watcher.inventory.addresses) == ["198.51.100.2"] and watcher.inventory.pooled == {}
        cluster.remove(("v1", "Service", "lease", "shop"))
        await clock.advance(1)
        counted.append(watcher.inventory.address_count)
    assert counted == [10, 17, 16, 17]


async def test_a_range_inside_a_named_pool_is_counted_once() -> None:
    cluster = FakeCluster()
    cluster.put(pool("public", "203.0.113.0/28"))
    async with watching(cluster, ip_ranges=(parse_address_range("203.0.113.4-203.0.113.9"),), ip_pools=("public",)) as (
        watcher,
        _,
        _clock,
    ):
        await watcher.ready()
        assert (watcher.inventory.address_count, watcher.inventory.pooled) == (15, {})


async def test_without_metallb_no_address_can_be_leased() -> None:
    cluster = FakeCluster()

    def unknown(operation: str, kind: str, name: str) -> None:
        if kind == "IPAddressPool":
            raise ClusterError("https://fake", "the server could not find the requested resource", status=404)

    cluster.before = unknown
    async with watching(cluster, ip_ranges=RANGES) as (watcher, _, clock):
        await watcher.ready()
        assert watcher.inventory.address_count == 0
        cluster.before = lambda operation, kind, name: None
        await clock.advance(6)
        assert watcher.inventory.address_count == 10 + 2**16


async def test_a_kind_that_cannot_be_read_is_logged_once_and_so_is_its_end() -> None:
    cluster = FakeCluster()
    answers = iter(range(10**6))

    def away(operation: str, kind: str, name: str) -> None:
        if kind == "PersistentVolume":
            raise ClusterError("https://fake", f"no answer, try {next(answers)}", status=500)

    cluster.before = away
    with capture_logs() as logs:
        async with watching(cluster) as (_, _, clock):
            await clock.advance(60)
            cluster.before = lambda operation, kind, name: None
            await clock.advance(10)
    assert [log["event"] for log in logs if log.get("kind") == "persistentvolumes"] == [
        "inventory.unreadable",
        "inventory.readable",
    ]


async def test_a_pool_over_our_addresses_is_logged_once_and_stands_in_the_decision() -> None:
    inventory = Inventory(address_count=0, pooled={"own": 10})
    with capture_logs() as logs:
        logged = log_pooled_addresses(inventory.pooled, {})
        logged = log_pooled_addresses(inventory.pooled, logged)
    assert [(entry["event"], entry["pool"], entry["addresses"]) for entry in logs] == [
        ("inventory.addresses_pooled", "own", 10)
    ]
    assert free_snapshot(inventory, (), provider="p").pooled == {"own": 10}


async def test_an_inventory_that_may_be_older_than_a_minute_says_so_once() -> None:
    """An expired kubeconfig: every call is a 401, no watch says anything, and the last picture stays."""
    cluster = FakeCluster()
    cluster.put(node("a"))

    def unauthorized(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://fake", "Unauthorized (HTTP 401)", status=401)

    async with watching(cluster) as (watcher, _, clock):
        with capture_logs() as logs:
            await clock.advance(600)
            assert watcher.freshness.problem == "" and watcher.freshness.seconds <= 15
            cluster.before = unauthorized
            await clock.advance(45)
            assert watcher.freshness.problem == ""
            await clock.advance(40)
            assert watcher.freshness.problem.startswith("the API server has not answered for more than 60 s: ")
            assert watcher.freshness.problem.endswith("Unauthorized (HTTP 401)")
            await clock.advance(600)
            assert [one.name for one in watcher.inventory.nodes] == ["a"]
            cluster.before = lambda operation, kind, name: None
            await clock.advance(20)
            assert watcher.freshness.problem == ""
    events = [entry["event"] for entry in logs if "_date" in entry["event"]]
    assert events == ["inventory.out_of_date", "inventory.up_to_date"]


async def test_one_kind_that_cannot_be_read_makes_the_inventory_old_too() -> None:
    cluster = FakeCluster()

    def forbidden(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("list", "Pod"):
            raise ClusterError("https://fake", "pods is forbidden", status=403)

    async with watching(cluster) as (watcher, _, clock):
        cluster.before = forbidden
        await clock.advance(301)
        assert watcher.freshness.problem == "", "the watch goes on until the next list"
        await clock.advance(70)
        assert watcher.freshness.problem.startswith("pods could not be read for more than 60 s")
        cluster.before = lambda operation, kind, name: None
        await clock.advance(10)
        assert watcher.freshness.problem == ""


async def test_a_malformed_object_hides_no_other() -> None:
    cluster = FakeCluster()
    cluster.put(node("a"))
    cluster.put({**node("b"), "status": "broken"})
    async with watching(cluster) as (watcher, _, _clock):
        await watcher.ready()
        assert [one.name for one in watcher.inventory.nodes] == ["a"]


async def test_a_drained_node_takes_no_new_lease_until_the_drain_ends() -> None:
    cluster, drained = FakeCluster(), {"a"}
    for name in "ab":
        cluster.put(node(name))
    bus, clock = FakeBus(), VirtualClock()
    watcher = InventoryWatcher(cluster, Settings(), bus=bus, clock=clock, drained=lambda: drained)
    task = asyncio.create_task(watcher.run())
    await clock.settle()
    assert [one.name for one in watcher.inventory.nodes] == ["b"]
    announced = len(bus.on(INVENTORY_CHANGED))
    drained.clear()
    await clock.advance(10)
    assert [one.name for one in watcher.inventory.nodes] == ["a", "b"]
    assert len(bus.on(INVENTORY_CHANGED)) > announced
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
