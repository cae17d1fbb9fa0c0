"""A provider's world on a real node. These tests run inside an enclosure: `make test-node` makes one."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.node import ENCLOSURE_VARIABLE
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from devnet.world import ProviderProcess, World

MARKS = [pytest.mark.node, pytest.mark.xdist_group("node"), pytest.mark.asyncio(loop_scope="session")]
"""Every module of this folder has them: the world's servers live in the session's event loop."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a command: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Site:
    """The world on a real node, its provider, and the other side of the node's wire."""

    world: World
    provider: ProviderProcess

    async def kubectl(self, *arguments: str, seconds: float = 60) -> Done:
        """Run kubectl as the cluster's administrator."""
        plane = self.world.plane
        argv = [str(plane.toolbox.program("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
        return await _run(argv, seconds=seconds)

    async def inside(self, namespace: str, service: str, *command: str, seconds: float = 60) -> Done:
        """Run a command in the first pod of a service of a lease."""
        pod = await self.pod(namespace, service)
        return await self.kubectl("-n", namespace, "exec", pod, "--", *command, seconds=seconds)

    async def pod(self, namespace: str, service: str) -> str:
        """The name of a pod of a service of a lease."""
        label = f"akash.network/manifest-service={service}"
        found = await self.kubectl("-n", namespace, "get", "pods", "-l", label, "-o", "name")
        assert found.stdout, f"no pod of {service} in {namespace}: {found.stderr}"
        return found.stdout.split()[0].removeprefix("pod/")

    async def outside(self, *command: str, seconds: float = 60) -> Done:
        """Run a command in the network namespace that plays the rest of the world."""
        return await _run(["ip", "netns", "exec", "outside", *command], seconds=seconds)


async def _run(argv: Sequence[str], *, seconds: float) -> Done:
    done = await asyncio.to_thread(
        subprocess.run, argv, capture_output=True, text=True, timeout=seconds, check=False, errors="replace"
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One world, one node and one provider for all tests of this folder."""
    if not os.environ.get(ENCLOSURE_VARIABLE):
        pytest.fail("tests of the real node run inside an enclosure: use `make test-node`", pytrace=False)
    toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    data: Path = tmp_path_factory.mktemp("real")
    async with World.start_real(data, toolbox) as world:
        await world.apply_cluster_stack(lambda _: None)
        await world.register_provider()
        yield Site(world, await world.run_provider())
