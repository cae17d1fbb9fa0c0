"""The API server's backends and the addresses of nodes are followed while the provider runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from lease.spec import ClusterFacts
from provider.daemon.fact_changes import follow_facts
from provider.daemon.lease_specs import cluster_facts
from provider.settings import Settings
from tests.world.cluster import FakeCluster, unreachable
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time


def endpoints(*addresses: str) -> dict[str, Any]:
    subset = {"addresses": [{"ip": address} for address in addresses], "ports": [{"port": 6443}]}
    meta = {"name": "kubernetes", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [subset] if addresses else []}


def a_cluster(*addresses: str) -> FakeCluster:
    cluster = FakeCluster("default", "lease")
    cluster.put(endpoints(*addresses))
    return cluster


async def follow(
    cluster: FakeCluster, settings: Settings, steps: Callable[[], Any], *, found: list[ClusterFacts] | None = None
) -> list[ClusterFacts]:
    """The facts that were reported while `steps` ran, in `found` as they come."""
    found = [] if found is None else found
    facts = await cluster_facts(settings, cluster)
    following = follow_facts(settings, cluster, facts, clock=VirtualClock(), changed=found.append)
    task = asyncio.create_task(following)
    await steps()
    task.cancel()
    return found


async def test_a_new_backend_counts_within_a_minute_and_one_that_went_until_ten_minutes_later() -> None:
    cluster = a_cluster("203.0.113.1", "203.0.113.2")

    async def steps() -> None:
        cluster.put(endpoints("203.0.113.2", "203.0.113.3"))
        await asyncio.sleep(900)

    first, last = await follow(cluster, Settings(), steps)
    assert set(first.api_server_endpoints) == {f"203.0.113.{n}:6443" for n in (1, 2, 3)}
    assert set(last.api_server_endpoints) == {f"203.0.113.{n}:6443" for n in (2, 3)}
    assert "203.0.113.3/32" in first.own_addresses or "203.0.113.2/31" in first.own_addresses


async def test_a_backend_that_restarts_or_an_api_server_that_is_away_changes_nothing() -> None:
    cluster = a_cluster("203.0.113.1", "203.0.113.2")

    def away(operation: str, kind: str, name: str) -> None:
        raise unreachable()

    async def steps() -> None:
        cluster.put(endpoints("203.0.113.2"))
        await asyncio.sleep(120)
        cluster.put(endpoints())
        await asyncio.sleep(1200)
        cluster.before = away
        await asyncio.sleep(1200)
        cluster.before = lambda *_: None
        cluster.put(endpoints("203.0.113.2", "203.0.113.1"))
        await asyncio.sleep(120)

    assert await follow(cluster, Settings(), steps) == []


async def test_without_network_policies_nothing_is_followed() -> None:
    cluster, settings = a_cluster("203.0.113.1"), Settings(network_policies=False)
    asked: list[str] = []
    facts = await cluster_facts(settings, cluster)
    cluster.before = lambda operation, kind, name: asked.append(name)
    await follow_facts(settings, cluster, facts, clock=VirtualClock(), changed=lambda _: None)
    assert asked == []


async def test_backends_that_the_settings_name_are_not_asked_for() -> None:
    cluster, asked = a_cluster("203.0.113.1"), list[str]()

    async def steps() -> None:
        cluster.before = lambda operation, kind, name: asked.append(kind)
        cluster.put(a_node("n1", "203.0.113.77"))
        await asyncio.sleep(120)

    settings = Settings(api_server_endpoints=("192.0.2.1:6443",))
    (found,) = await follow(cluster, settings, steps)
    assert found.api_server_endpoints == ("192.0.2.1:6443",) and "203.0.113.77/32" in found.own_addresses
    assert "Endpoints" not in asked


def a_node(name: str, *addresses: str, kind: str = "ExternalIP") -> dict[str, Any]:
    listed = [{"type": kind, "address": address} for address in addresses]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"addresses": listed}}


async def test_a_node_that_joins_is_closed_within_a_minute_and_one_that_goes_stays_closed_for_a_day() -> None:
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("first", "198.51.100.1"))

    async def steps() -> None:
        await asyncio.sleep(300)
        cluster.put(a_node("second", "198.51.100.77", "fd00::1"))
        cluster.put(a_node("inside", "10.0.0.7", kind="InternalIP"))
        await asyncio.sleep(60)
        cluster.remove(("v1", "Node", "", "second"))
        await asyncio.sleep(80_000)
        cluster.put(a_node("third", "198.51.100.99"))
        await asyncio.sleep(60)

    joined, both = await follow(cluster, Settings(), steps)
    assert joined.own_addresses == ("198.51.100.1/32", "198.51.100.77/32", "203.0.113.1/32")
    assert both.own_addresses == ("198.51.100.1/32", "198.51.100.77/32", "198.51.100.99/32", "203.0.113.1/32")


@pytest.mark.parametrize("address", ["198.51.100.77", "198.51.100.2"])
async def test_a_node_that_joins_is_closed_at_once(address: str) -> None:
    """The second address is the neighbour of one that is closed already: the two are one network."""
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("first", "198.51.100.3"))

    async def steps() -> None:
        await asyncio.sleep(300)
        for number in range(20):
            cluster.put(a_node(f"joins{number}", address if number else "10.0.0.1"))
        await asyncio.sleep(2)

    (joined,) = await follow(cluster, Settings(), steps)
    assert covers(joined, address) and covers(joined, "198.51.100.3")


def covers(facts: ClusterFacts, address: str) -> bool:
    return any(IPv4Address(address) in IPv4Network(text) for text in facts.own_addresses)


async def test_a_node_of_the_start_that_goes_is_open_after_a_day_without_a_restart() -> None:
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("first", "198.51.100.2"))
    cluster.put(a_node("second", "198.51.100.3"))

    async def steps() -> None:
        await asyncio.sleep(300)
        cluster.remove(("v1", "Node", "", "second"))
        await asyncio.sleep(86_000)
        assert found == []
        await asyncio.sleep(1_000)

    found: list[ClusterFacts] = []
    (last,) = await follow(cluster, Settings(), steps, found=found)
    assert last.own_addresses == ("198.51.100.2/32", "203.0.113.1/32")


async def test_what_was_closed_at_the_start_stays_while_nodes_cannot_be_read() -> None:
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("first", "198.51.100.2"))

    def away(operation: str, kind: str, name: str) -> None:
        if kind == "Node":
            raise unreachable()

    async def steps() -> None:
        cluster.before = away
        await asyncio.sleep(200_000)

    assert await follow(cluster, Settings(), steps) == []


async def test_a_node_that_names_a_network_or_very_many_addresses_spoils_no_policy() -> None:
    """A kubelet writes what it likes into the addresses of its node."""
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("bad", "0.0.0.0/0", "198.51.0.0/16", "bad", "", *(f"198.51.100.{n}" for n in range(200))))
    found = (await cluster_facts(Settings(), cluster)).own_addresses
    assert found == ("198.51.100.0/29", "203.0.113.1/32")
    cluster.remove(("v1", "Node", "", "bad"))

    async def steps() -> None:
        cluster.put(a_node("bad", "0.0.0.0/0", *(f"198.51.100.{n}" for n in range(200))))
        await asyncio.sleep(60)

    (joined,) = await follow(cluster, Settings(), steps)
    assert joined.own_addresses == found


async def test_nodes_that_join_while_the_api_server_is_away_are_closed_when_it_answers() -> None:
    cluster = a_cluster("203.0.113.1")

    def away(operation: str, kind: str, name: str) -> None:
        raise unreachable()

    async def steps() -> None:
        cluster.before = away
        await asyncio.sleep(300)
        cluster.put(a_node("second", "198.51.100.77"))
        cluster.before = lambda *_: None
        await asyncio.sleep(120)

    (found,) = await follow(cluster, Settings(), steps)
    assert "198.51.100.77/32" in found.own_addresses


async def test_a_status_that_nodes_repeat_changes_nothing() -> None:
    cluster = a_cluster("203.0.113.1")
    cluster.put(a_node("first", "198.51.100.1"))

    async def steps() -> None:
        for number in range(50):
            cluster.put(a_node("first", "198.51.100.1") | {"spec": {"podCIDR": f"10.0.{number}.0/24"}})
            await asyncio.sleep(30)

    assert await follow(cluster, Settings(), steps) == []
