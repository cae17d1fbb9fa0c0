"""The API server's backends are followed while the provider runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lease.spec import ClusterFacts
from provider.daemon.api_server_backends import follow_backends
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


async def follow(cluster: FakeCluster, settings: Settings, steps: Callable[[], Any]) -> list[ClusterFacts]:
    """The facts that were reported while `steps` ran."""
    found: list[ClusterFacts] = []
    facts = await cluster_facts(settings, cluster)
    following = follow_backends(settings, cluster, facts, clock=VirtualClock(), changed=found.append)
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


@pytest.mark.parametrize(
    "settings", [Settings(api_server_endpoints=("192.0.2.1:6443",)), Settings(network_policies=False)]
)
async def test_where_the_settings_decide_nothing_is_followed(settings: Settings) -> None:
    cluster = a_cluster("203.0.113.1")
    asked: list[str] = []
    facts = await cluster_facts(settings, cluster)
    cluster.before = lambda operation, kind, name: asked.append(name)
    await follow_backends(settings, cluster, facts, clock=VirtualClock(), changed=lambda _: None)
    assert asked == []
