"""Routes that the gateway refuses, and addresses that no Service has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lease.spec import ClusterFacts, IngressMode
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.cluster import HTTP_ROUTE
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

L = a_lease()


class GatewayWorld(World):
    facts = ClusterFacts(network_policies=False, ingress_mode=IngressMode.GATEWAY_API)


async def routed() -> tuple[GatewayWorld, dict[str, Any]]:
    world = GatewayWorld(gateway_api=True)
    await world.run(L, a_group(hosts=["a.example.com"]))
    (route,) = await world.cluster.list(HTTP_ROUTE)
    return world, route


def with_condition(route: dict[str, Any], type_: str, status: str) -> dict[str, Any]:
    condition = {
        "type": type_,
        "status": status,
        "reason": "NoMatchingParent",
        "message": "no listener\nof this name",
        "observedGeneration": 1,
    }
    return {**route, "status": {"parents": [{"conditions": [condition]}]}}


@pytest.mark.parametrize("type_", ["Accepted", "ResolvedRefs"])
async def test_a_route_that_the_gateway_refuses_is_trouble_and_not_the_tenants(type_: str) -> None:
    world, route = await routed()
    world.cluster.put(with_condition(route, type_, "False"), status=True)
    outcome = await world.check(L)
    assert (outcome.phase, outcome.of_the_tenant) == (Phase.DEGRADED, False)
    text = "service web: hostname a.example.com is not served: NoMatchingParent: no listener of this name"
    assert outcome.reason == text
    assert tenant_text(world.reconciler.statuses[L]) == f"degraded: {text}"


@pytest.mark.parametrize(("status", "observed"), [("True", 1), ("Unknown", 1), ("False", 0)])
async def test_a_route_that_is_taken_or_not_judged_yet_is_no_trouble(status: str, observed: int) -> None:
    """A refusal of an older generation says nothing of the newest one, which is 1 here."""
    world, route = await routed()
    refused = with_condition(route, "Accepted", status)
    refused["status"]["parents"][0]["conditions"][0]["observedGeneration"] = observed or -1
    world.cluster.put(refused, status=True)
    assert (await world.check(L)).phase is Phase.RUNNING


async def test_the_gateways_answer_asks_for_a_check() -> None:
    world, route = await routed()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.loop.run())
        await world.elapse(5)
        world.cluster.put(with_condition(route, "Accepted", "False"), status=True)
        await world.elapse(2)
        phase = world.reconciler.statuses[L].phase
        running.cancel()
    assert phase is Phase.DEGRADED
