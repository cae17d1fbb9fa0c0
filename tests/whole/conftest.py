"""One world for the tests of this folder, which xdist keeps in one worker: they share its cluster and its provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.tools import Toolbox
from devnet.world import ProviderProcess, World
from lease.ids import DeploymentId, LeaseId
from lease.sdl import Sdl, read_sdl
from tests.world.patience import PATIENCE_S, eventually

MARKS = [pytest.mark.xdist_group("path"), pytest.mark.devnet, pytest.mark.asyncio(loop_scope="session")]
"""Every module of this folder has them: the world's servers live in the session's event loop."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Cluster, chain, cluster stack and a registered provider; `lessor run` is each test's own."""
    async with World.start(tmp_path_factory.mktemp("world"), toolbox) as world:
        await world.apply_cluster_stack(lambda _: None)
        await world.register_provider()
        yield world


@pytest_asyncio.fixture(loop_scope="session")
async def provider(world: World) -> AsyncIterator[ProviderProcess]:
    """A running `lessor run`."""
    process = await world.run_provider()
    yield process
    await process.stop()


@dataclass(frozen=True)
class Rented:
    sdl: Sdl
    deployment: DeploymentId
    leases: tuple[LeaseId, ...]

    @property
    def lease(self) -> LeaseId:
        return self.leases[0]


def sdl_of(path: Path) -> Sdl:
    """The document with its prices in the one denom that the chain takes; nothing else is changed."""
    sdl = read_sdl(path.read_bytes(), file=path.name)
    groups = tuple(
        replace(group, units=tuple(replace(u, price=replace(u.price, denom="uact")) for u in group.units))
        for group in sdl.groups
    )
    return replace(sdl, groups=groups)


async def rent(world: World, sdl: Sdl) -> Rented:
    """Publish and take the bid."""
    deployment = await world.tenant.publish(sdl)
    bids = await world.tenant.wait_for_bids(deployment, groups=len(sdl.groups))
    return Rented(sdl, deployment, tuple(await world.tenant.take(bids)))


async def deploy(world: World, provider: ProviderProcess, rented: Rented, *, seconds: float = 2 * PATIENCE_S) -> None:
    """Send the manifest and wait until every group runs."""
    answer = await world.tenant.send_manifest(rented.lease, rented.sdl)
    assert (answer.status, answer.body) == (200, "")
    for lease in rented.leases:
        await provider.wait_for("lease.state", lease=str(lease), phase="running", seconds=seconds)


async def close(world: World, provider: ProviderProcess, rented: Rented, *, seconds: float = 2 * PATIENCE_S) -> None:
    """Close the deployment and wait until the provider says that it is over."""
    await world.tenant.close_deployment(rented.deployment)
    for lease in rented.leases:
        await provider.wait_for("lease.state", lease=str(lease), phase="closed", seconds=seconds)


async def until_a_stack_is_locked(world: World) -> None:
    """Return when an operation of the provider's engine has begun."""
    stacks = world.data / "provider" / "engine" / "stacks"
    await eventually(lambda: any(stacks.glob("*/.pulumi/locks/**/*.json")), pause_s=0.005)
