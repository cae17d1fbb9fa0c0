"""A manifest may come right after a transaction of its tenant: it waits until our node has the block too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provider.gateway.config import Limits
from provider.protocols.chain import LeaseState
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import TENANT, body, deployment, lease, rent
from tests.provider.gateway.world import FREE, Answer, World, new_world

OLD, NEW = body(), body(env=["VERSION=2"])
PAUSES = (0.001, 0.002, 0.003, 0.004)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = new_world(tmp_path, limits=Limits(behind_pauses=PAUSES))
    world.clock.set(NOW)
    rent(world, OLD, lease())
    async with world.running():
        yield world


async def put(world: World, data: bytes) -> Answer:
    return await world.put_manifest(lease().dseq, data, TENANT.token())


def at_head(world: World, number: int, happens: Callable[[], None]) -> None:
    """`happens` before the node answers for the `number`th time where its head is."""

    def before(name: str) -> None:
        if name == "head" and world.chain.calls.count("head") == number:
            happens()

    world.chain.before = before


async def test_a_manifest_of_an_update_that_the_node_does_not_have_yet_is_accepted_with_its_block(world: World) -> None:
    at_head(world, 3, lambda: rent(world, NEW, lease()))
    assert (await put(world, NEW)).status == 200
    assert world.chain.calls.count("head") == 3


async def test_a_manifest_of_a_lease_that_the_node_does_not_have_yet_is_accepted_with_its_block(world: World) -> None:
    world.chain.lease_states.clear()
    at_head(world, 2, lambda: world.chain.put_lease(lease(), LeaseState.ACTIVE, price=FREE))
    assert (await put(world, OLD)).status == 200


async def test_a_new_tenants_manifest_waits_before_its_body_is_read(world: World) -> None:
    world.chain.lease_states.clear()
    world.intake._is_tenant = lambda _: False
    at_head(world, 2, lambda: world.chain.put_lease(lease(), LeaseState.ACTIVE, price=FREE))
    assert (await put(world, OLD)).status == 200


async def test_another_node_is_asked_before_the_refusal(world: World) -> None:
    world.chain.other_deployments = [deployment(OLD), deployment(NEW)]
    assert (await put(world, NEW)).status == 200
    assert world.chain.calls.count("deployment") == 1 + len(PAUSES)


@pytest.mark.parametrize("tenant", [True, False])
async def test_another_node_is_asked_for_the_lease_before_the_refusal(world: World, tenant: bool) -> None:
    world.intake._is_tenant = lambda _: tenant
    world.chain.other_leases = list(world.chain.lease_states.values())
    world.chain.lease_states.clear()
    assert (await put(world, OLD)).status == 200


async def test_another_nodes_word_does_not_revive_a_lease_that_the_node_knows_as_ended(world: World) -> None:
    world.chain.other_leases = list(world.chain.lease_states.values())
    closed = replace(world.chain.lease_states[lease()], state=LeaseState.CLOSED)
    world.chain.lease_states[lease()] = closed
    answer = await put(world, OLD)
    assert (answer.status, answer.text) == (404, "no lease for deployment\n")


async def test_another_manifest_is_refused_after_a_few_queries(world: World) -> None:
    answer = await put(world, NEW)
    assert (answer.status, answer.text) == (422, "manifest version validation failed\n")
    assert world.chain.calls.count("deployment") == 1 + len(PAUSES) == 1 + len(Limits().behind_pauses)
    assert 6 < sum(Limits().behind_pauses) <= 8


async def test_another_manifest_is_refused_as_soon_as_the_node_is_two_blocks_further(world: World) -> None:
    def two_blocks() -> None:
        world.chain.height += 2

    at_head(world, 2, two_blocks)
    assert (await put(world, NEW)).status == 422
    assert world.chain.calls.count("deployment") == 2


async def test_nothing_waits_for_a_deployment_that_is_not_known(world: World) -> None:
    world.chain.deployments.clear()
    world.chain.lease_states.clear()
    assert (await put(world, OLD)).status == 404
    assert "head" not in world.chain.calls
