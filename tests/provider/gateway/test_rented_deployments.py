"""What is kept of deployments with a lease here: a manifest waits for no query, and no event of the chain is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lease.ids import DeploymentId, LeaseId
from provider.bus import CHAIN_BLOCK
from provider.chain import events
from provider.errors import ChainError
from provider.gateway.rented_deployments import RentedDeployments
from provider.protocols.chain import Block, Event, LeaseState
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import TENANT, body, deployment, lease, rent
from tests.provider.gateway.world import PROVIDER, World, new_world
from tests.world.chain import event_of

OLD, NEW = body(), body(env=["VERSION=2"])
QUERIES = ("leases", "deployment")


class Chain:
    """A world whose blocks reach `rented`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rented = RentedDeployments(world.chain, provider=PROVIDER, bus=world.bus, clock=world.clock)
        world.rented = self.rented.get

    async def block(self, *found: Event, missed_from: int = 0) -> None:
        self.world.bus.publish(CHAIN_BLOCK, Block(1, found, missed_from))
        await settle()

    def queries(self) -> list[str]:
        return [name for name in self.world.chain.calls if name in QUERIES]

    async def put(self, data: bytes) -> int:
        self.world.chain.calls.clear()
        return (await self.world.put_manifest(lease().dseq, data, TENANT.token())).status


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[Chain]:
    world = new_world(folder)
    world.clock.set(NOW)
    rent(world, OLD, lease())
    chain = Chain(world)
    running = asyncio.create_task(chain.rented.run())
    await settle()
    try:
        yield chain
    finally:
        running.cancel()


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[Chain]:
    async with followed(tmp_path) as found, found.world.running():
        yield found


def won(item: LeaseId | None = None) -> Event:
    return event_of(events.LEASE_CREATED, item or lease())


def known(chain: Chain) -> bool:
    return chain.rented.get(lease().deployment) is not None


async def test_the_manifest_of_a_lease_that_was_won_in_a_block_causes_no_query(chain: Chain) -> None:
    await chain.block(won())
    assert chain.queries() == ["leases", "deployment"]
    assert await chain.put(OLD) == 200
    assert chain.queries() == []


async def test_without_a_block_that_names_it_the_chain_is_asked(chain: Chain) -> None:
    await chain.block()
    assert await chain.put(OLD) == 200
    assert sorted(chain.queries()) == ["deployment", "leases"]


async def test_a_lease_of_another_provider_is_not_read(chain: Chain) -> None:
    await chain.block(won(replace(lease(), provider="akash1other")))
    assert chain.queries() == []


async def test_a_manifest_that_does_not_fit_what_is_kept_is_compared_with_the_chain(chain: Chain) -> None:
    await chain.block(won())
    rent(chain.world, NEW, lease())  # in a block that is still to come
    assert await chain.put(NEW) == 200
    assert sorted(chain.queries()) == ["deployment", "leases"]
    assert await chain.put(body(env=["VERSION=3"])) == 422


async def test_an_update_is_read_again_and_its_manifest_causes_no_query(chain: Chain) -> None:
    await chain.block(won())
    rent(chain.world, NEW, lease())
    await chain.block(event_of(events.DEPLOYMENT_UPDATED, lease().deployment))
    assert await chain.put(NEW) == 200
    assert chain.queries() == []
    assert await chain.put(OLD) == 422


async def test_an_update_of_a_deployment_that_is_not_kept_is_not_read(chain: Chain) -> None:
    await chain.block(event_of(events.DEPLOYMENT_UPDATED, lease().deployment))
    assert chain.queries() == []


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (events.LEASE_CLOSED, lease()),
        (events.LEASE_RECLAIM_STARTED, lease()),
        (events.BID_CLOSED, lease()),
        (events.ORDER_CLOSED, lease().order),
        (events.GROUP_CLOSED, lease().order.group),
        (events.GROUP_PAUSED, lease().order.group),
        (events.DEPLOYMENT_CLOSED, lease().deployment),
    ],
)  # fmt: skip
async def test_every_event_of_the_deployment_has_the_chain_asked_again(chain: Chain, kind: str, item: LeaseId) -> None:
    await chain.block(won())
    chain.world.chain.put_lease(lease(), LeaseState.CLOSED)
    await chain.block(event_of(kind, item))
    assert await chain.put(OLD) == 404


async def test_an_event_during_the_query_drops_the_answer(chain: Chain) -> None:
    gate = chain.world.chain.gates["deployment"] = asyncio.Event()
    await chain.block(won())
    await chain.block(event_of(events.LEASE_CLOSED, lease()))
    gate.set()
    await settle()
    assert not known(chain)


async def test_an_update_during_the_query_is_read_after_it(chain: Chain) -> None:
    gate = chain.world.chain.gates["deployment"] = asyncio.Event()
    await chain.block(won())
    await chain.block(event_of(events.DEPLOYMENT_UPDATED, lease().deployment))
    gate.set()
    await settle()
    assert chain.queries().count("deployment") == 2
    assert known(chain)


async def test_missed_blocks_forget_everything(chain: Chain) -> None:
    await chain.block(won())
    await chain.block(missed_from=1)
    assert not known(chain)


async def test_lost_blocks_of_the_bus_forget_everything(chain: Chain) -> None:
    await chain.block(won())
    chain.world.bus.lose(CHAIN_BLOCK)
    await settle()
    assert not known(chain)


@pytest.mark.virtual_time
async def test_what_is_kept_ends_after_five_minutes_and_a_minute_without_a_block(tmp_path: Path) -> None:
    async with followed(tmp_path) as chain:
        await chain.block(won())
        await asyncio.sleep(59)
        assert known(chain)
        await asyncio.sleep(2)
        assert not known(chain)
        await chain.block()
        assert known(chain)
        await asyncio.sleep(240)
        await chain.block()
        assert not known(chain)


async def test_a_node_that_does_not_answer_or_has_no_lease_yet_leaves_nothing(chain: Chain) -> None:
    def fail(name: str) -> None:
        raise ChainError("fake", "no luck")

    chain.world.chain.before = fail
    await chain.block(won())
    assert not known(chain)
    chain.world.chain.before = lambda _: None
    chain.world.chain.lease_states.clear()
    await chain.block(won())
    assert not known(chain)


async def test_ten_thousand_deployments_are_kept_at_most(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provider.gateway.rented_deployments._MOST", 2)
    made = [lease(dseq=dseq) for dseq in (1, 2, 3)]
    for each in made:
        chain.world.chain.deployments[each.deployment] = deployment(OLD, each.dseq)
        chain.world.chain.put_lease(each, LeaseState.ACTIVE)
        await chain.block(won(each))
    assert [chain.rented.get(DeploymentId(each.owner, each.dseq)) is not None for each in made] == [False, True, True]
