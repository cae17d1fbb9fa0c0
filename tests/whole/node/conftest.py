"""A provider's world on a real node. These tests run inside an enclosure: `make test-node` makes one."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devnet.node import is_enclosed
from devnet.tenant import Tenant
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from devnet.world import ProviderProcess, World
from lease.ids import DeploymentId, LeaseId, namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close
from tests.whole.corpus.documents import NODES
from tests.world.patience import PATIENCE_S

MARKS = [pytest.mark.node, pytest.mark.xdist_group("node"), pytest.mark.asyncio(loop_scope="session")]
"""Every module of this folder has them: the world's servers live in the session's event loop."""


STOPPING = ("test_failures", "test_data", "test_adoption")

END_OTHERS = "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -gt 1 ] && [ $p != $$ ] && kill $p; done"
"""A shell script that ends what was started in a container beside its first process, without starting anything."""


CARDS = tuple(replace(node, gpus=8) for node in NODES if node.gpus)
"""The models of cards that the provider has registered. The node has some while a test starts their plugin."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a command: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str


@dataclass(slots=True)
class Site:
    """The world on a real node, its provider (a test may start another), and the other side of the node's wire."""

    world: World
    provider: ProviderProcess
    ahead: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    """Module to what its function `ahead` returns. All begin with the site: a lease mostly waits until it runs."""
    _closing: list[asyncio.Task[None]] = field(default_factory=list)
    _tenants: list[Tenant] = field(default_factory=list)

    def close(self, rented: Rented, *, world: World | None = None) -> None:
        """Close a deployment of the tenant, or of another `world`'s, while the tests go on."""
        self._closing.append(asyncio.create_task(close(world or self.world, self.provider, rented)))

    async def begun(self) -> None:
        """Return when every lease runs that begins with the site, and everything is closed that was to be closed."""
        await asyncio.gather(*self.ahead.values())
        await self.settle()

    async def settle(self) -> None:
        """Return when everything is closed that `close` was called for. Raises what went wrong with it."""
        while self._closing:
            await self._closing.pop()

    async def end(self) -> None:
        """Settle, and end the other tenants' connections."""
        await asyncio.gather(*self.ahead.values(), return_exceptions=True)
        await self.settle()
        for tenant in self._tenants:
            await tenant.close()

    async def kubectl(self, *arguments: str, seconds: float = 60, stdin: str | None = None) -> Done:
        """Run kubectl as the cluster's administrator."""
        plane = self.world.plane
        argv = [str(plane.toolbox.program("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments]
        return await run_command(argv, seconds=seconds, stdin=stdin)

    async def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects as the cluster's administrator."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        done = await self.kubectl("apply", "-f", "-", stdin=text)
        assert done.status == 0, done.stderr

    def as_tenant(self, role: str) -> World:
        """The world as another tenant sees it, until the tests end."""
        other = copy.copy(self.world)
        other.tenant = Tenant(self.world.account(role))
        self._tenants.append(other.tenant)
        return other

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

    async def pods(self, lease: LeaseId, service: str) -> Sequence[str]:
        """The names of the pods of a service of a lease, sorted."""
        label = f"akash.network/manifest-service={service}"
        listed = await self.kubectl("-n", namespace_name(lease), "get", "pods", "-l", label, "-o", "name")
        return sorted(listed.stdout.split())

    @asynccontextmanager
    async def asking(self, *command: str, pod: tuple[str, str] | None = None) -> AsyncIterator[list[str]]:
        """Run `standin poll …` or `standin probe …` outside or in a pod (namespace, name) while the block runs.

        The list holds what it printed, when the block has ended.
        """
        plane, printed = self.world.plane, list[str]()
        tool = plane.toolbox.program
        outside = ["ip", "netns", "exec", "outside", str(tool("standin")), *command]
        kubectl = [str(tool("kubectl")), "--kubeconfig", str(plane.kubeconfig)]
        inside = [*kubectl, "-n", pod[0], "exec", pod[1], "--", "standin", *command] if pod else []
        process = await asyncio.create_subprocess_exec(*(inside or outside), stdout=asyncio.subprocess.PIPE)
        try:
            yield printed
        finally:
            if pod:  # the end of kubectl does not reach the container
                await self.kubectl("-n", pod[0], "exec", pod[1], "--", "sh", "-c", END_OTHERS)
            else:
                process.terminate()
            output, _ = await process.communicate()
            printed.append(output.decode())

    async def update(self, world: World, rented: Rented, sdl: Sdl) -> None:
        """Announce and send another version, and wait until it runs."""
        await world.tenant.announce_update(rented.deployment, sdl)
        mark = len(self.provider.events)
        answer = await world.tenant.send_manifest(rented.lease, sdl)
        assert (answer.status, answer.body) == (200, "")
        await self.provider.wait_for(
            "stack.result", after=mark, lease=str(rented.lease), operation="up", seconds=PATIENCE_S
        )
        await self.provider.wait_for(
            "lease.state", after=mark, lease=str(rented.lease), phase="running", seconds=PATIENCE_S
        )

    async def pod_addresses(self, namespace: str, service: str = "", *, label: str = "") -> list[str]:
        """The addresses of the pods of a service of a lease, or of those with a label."""
        selector = label or f"akash.network/manifest-service={service}"
        fields = ("-o", "jsonpath={.items[*].status.podIP}")
        return (await self.kubectl("-n", namespace, "get", "pods", "-l", selector, *fields)).stdout.split()

    async def service_addresses(self, namespace: str) -> Mapping[str, str]:
        """Name to cluster address of the Services of a namespace."""
        listed = await self.kubectl("-n", namespace, "get", "services", "-o", "json")
        return {item["metadata"]["name"]: item["spec"]["clusterIP"] for item in json.loads(listed.stdout)["items"]}

    async def lease_status(self, world: World, deployment: DeploymentId, *, seconds: float = 20) -> Any:
        """What the provider's gateway tells the tenant, once it names the leased address: that comes a little later."""
        gateway = await world.tenant.gateway(world.provider)
        deadline = time.monotonic() + seconds
        while True:
            status = json.loads((await gateway.lease_status(deployment.dseq)).body)
            if status["ips"] or time.monotonic() > deadline:
                return status
            await asyncio.sleep(0.1)

    async def outside(self, *command: str, seconds: float = 60) -> Done:
        """Run a command in the network namespace that plays the rest of the world."""
        return await run_command(["ip", "netns", "exec", "outside", *command], seconds=seconds)


async def run_command(
    argv: Sequence[str], *, seconds: float, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> Done:
    """Run a command. Its output is decoded here: `subprocess` would turn a carriage return into a line feed."""
    text = None if stdin is None else stdin.encode()
    done = await asyncio.to_thread(
        subprocess.run, argv, input=text, capture_output=True, timeout=seconds, check=False, env=env
    )
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


@pytest.hookimpl
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that stop programs of the node come last: they would disturb the leases of others."""
    items.sort(key=lambda item: item.path.parent == Path(__file__).parent and item.path.stem in STOPPING)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One world, one node and one provider for all tests of this folder."""
    if not is_enclosed():
        pytest.fail("tests of the real node run inside an enclosure: use `make test-node`", pytrace=False)
    toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    data: Path = tmp_path_factory.mktemp("real")
    async with World.start_real(data, toolbox) as world:
        await world.apply_cluster_stack(lambda _: None)
        listening = {"AP_GATEWAY_LISTEN_ADDRESS": f"0.0.0.0:{world.gateway_port}"}
        world.terms = replace(world.terms, nodes=CARDS, provider={**world.terms.provider, **listening})
        await world.register_provider()
        site = Site(world, await world.run_provider())
        for module in dict.fromkeys(item.getparent(pytest.Module).obj for item in request.session.items):  # type: ignore[union-attr]
            if hasattr(module, "ahead"):
                site.ahead[module.__name__] = asyncio.create_task(module.ahead(site))
        yield site
        await site.end()
