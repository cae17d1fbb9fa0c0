"""SDL → order → bid → lease → stack → nothing left, over the public interfaces and real parts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.demo.leftovers import leftovers
from devnet.demo.processes import programs_started
from devnet.world import ProviderProcess, World
from lease.ids import namespace_name
from lease.manifest_json import manifest_version
from lease.sdl import Sdl
from tests.data import SDL
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


OFTEN = (
    "edge-shared-profile-endpoints-v2.0",  # UDP beside TCP, three services, six replicas
    "persistent-beta2-accept-host",  # a volume and a hostname
    "ip-endpoint-two-ports",  # a leased IP
    "gpu-models-ram-shm-persistent",  # a GPU by model and memory, shared memory, a volume
    "edge-credentials-v2.1-trimmed",
)
SELDOM = (
    "base-port-ranges-v2.0",
    "ip-endpoint-udp",
    "gpu-wildcard-single-volume",
    "edge-permissions-read",
    "services-five-accept-hosts",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def provider(world: World) -> AsyncIterator[ProviderProcess]:
    """One `lessor run` for all tests here."""
    process = await world.run_provider()
    yield process
    await process.stop()


@pytest.mark.parametrize(
    "names", [pytest.param(OFTEN, id="often"), pytest.param(SELDOM, id="seldom", marks=pytest.mark.long)]
)
async def test_five_sdls_go_through_the_whole_path_and_leave_nothing(
    world: World, provider: ProviderProcess, names: Sequence[str]
) -> None:
    sdls = [sdl_of(SDL / f"{name}.yaml") for name in names]
    rented = [await rent(world, sdl) for sdl in sdls]
    await asyncio.gather(*(deploy(world, provider, one, seconds=2 * PATIENCE_S) for one in rented))
    await asyncio.gather(*(close(world, provider, one, seconds=2 * PATIENCE_S) for one in rented))
    assert await leftovers(world, *(lease for one in rented for lease in one.leases)) == ()


async def test_a_lease_is_what_its_tenant_and_the_cluster_see(world: World, provider: ProviderProcess) -> None:
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    await deploy(world, provider, rented)
    gateway = await world.tenant.gateway(world.provider)
    status = json.loads((await gateway.lease_status(rented.deployment.dseq)).body)
    assert {name: service["available"] for name, service in status["services"].items()} == {"db": 1, "web": 1}
    assert "web.demo.example.com" in status["services"]["web"]["uris"]
    assert status["ips"]["web"][0]["IP"].startswith("203.0.113.")
    assert status["forwarded_ports"]["web"][0]["externalPort"] > 0
    namespace = namespace_name(rented.lease)
    objects = await asyncio.to_thread(_kubectl, world, "get", "all,pvc,ingress", "-n", namespace, "-o", "name")
    assert {"deployment.apps/web", "statefulset.apps/db", "persistentvolumeclaim/db-data-db-0"} <= set(objects.split())
    await close(world, provider, rented)
    assert await leftovers(world, rented.lease) == ()


async def test_an_update_changes_one_image_and_an_identical_one_starts_no_process(
    world: World, provider: ProviderProcess
) -> None:
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    await deploy(world, provider, rented)
    changed = _with_image(rented.sdl, "web", "docker.io/library/nginx:1.28")
    await world.tenant.announce_update(rented.deployment, changed)
    mark = len(provider.events)
    assert (await world.tenant.send_manifest(rented.lease, changed)).status == 200
    result = await provider.wait_for("stack.result", after=mark, operation="up")
    assert result["ok"]
    touched = {e["name"] for e in provider.events[mark:] if e.get("event") == "stack.resource" and e["op"] == "update"}
    assert touched <= {"web", "web-np", "web-ip-443-tcp"}, "another service was rolled too"
    await provider.wait_for("lease.state", after=mark, lease=str(rented.lease), phase="running")

    mark = len(provider.events)
    watch = asyncio.create_task(programs_started(provider.pid, seconds=2))
    assert (await world.tenant.send_manifest(rented.lease, changed)).status == 200
    assert await watch == set()
    assert [e for e in provider.events[mark:] if e.get("event") == "stack.result"] == []
    await close(world, provider, rented)
    assert await leftovers(world, rented.lease) == ()


async def test_closing_only_the_lease_opens_a_new_order_which_gets_a_new_bid(
    world: World, provider: ProviderProcess
) -> None:
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await deploy(world, provider, rented)
    await world.tenant.close_lease(rented.lease)
    (bid,) = await world.tenant.wait_for_bids(rented.deployment)
    assert (bid.id.oseq, bid.id.provider) == (2, world.provider)
    await provider.wait_for("lease.state", lease=str(rented.lease), phase="closed")
    (second,) = await world.tenant.take([bid])
    again = Rented(rented.sdl, rented.deployment, (second,))
    await deploy(world, provider, again)
    await close(world, provider, again)
    assert await leftovers(world, second) == ()


def _with_image(sdl: Sdl, name: str, image: str) -> Sdl:
    (group,) = sdl.manifest
    services = tuple(replace(s, image=image) if s.name == name else s for s in group.services or ())
    manifest = (replace(group, services=services),)
    return replace(sdl, manifest=manifest, version=manifest_version(manifest))


def _kubectl(world: World, *arguments: str) -> str:
    import subprocess

    argv = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
