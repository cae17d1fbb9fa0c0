"""What goes wrong around a lease never ends it, and what a tenant gets wrong changes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.demo.leftovers import leftovers
from devnet.tenant import Tenant
from devnet.tenant.token import full_access, sign_token
from devnet.world import ProviderProcess, World
from lease.errors import SdlInvalid
from lease.ids import namespace_name
from lease.manifest_json import manifest_json
from lease.sdl import read_sdl
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of, until_a_stack_is_locked
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
UNKNOWN = "rpc error: code = NotFound desc = Deployment not found: key not found\n"


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(world: World) -> AsyncIterator[Tenant]:
    """Another tenant, whose key the chain knows: it has signed before."""
    other = Tenant(world.account("tenant2"))
    await other.close_deployment(await other.publish(sdl_of(EXAMPLES / "web.yaml")))
    yield other
    await other.close()


async def test_a_broken_sdl_is_refused_before_anything_is_published(world: World) -> None:
    broken = (EXAMPLES / "web.yaml").read_text().replace("count: 2", "count: many")
    with pytest.raises(SdlInvalid) as refused:
        read_sdl(broken, file="web.yaml")
    assert refused.value.findings[0].line > 1


async def test_a_refused_manifest_says_why_and_changes_nothing(
    world: World, provider: ProviderProcess, stranger: Tenant
) -> None:
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await provider.wait_for("lease.state", lease=str(rented.lease), phase="waiting for manifest")
    before = await asyncio.to_thread(_everything, world, rented)
    gateway = await world.tenant.gateway(world.provider)
    theirs = await stranger.gateway(world.provider)
    dseq, body = rented.deployment.dseq, manifest_json(rented.sdl.manifest).encode()
    other = body.replace(b"nginx", b"nginy")
    forged = sign_token(stranger.account.key, full_access(world.tenant.account.address))
    cases = [
        (await gateway.put_manifest(dseq, other), 422, "manifest version validation failed\n"),
        (await gateway.put_manifest(dseq, body[:40]), 422, None),
        (await gateway.put_manifest(dseq, body, token="no.such.token"), 401, '{"message":"JWT is invalid"}'),
        (await gateway.put_manifest(dseq, body, token=forged), 401, '{"message":"JWT is invalid"}'),
        (await gateway.put_manifest(dseq, body, token=""), 401, '{"message":"unauthorized access"}'),
        (await gateway.put_manifest(dseq + 1, body), 404, UNKNOWN),
        (await theirs.put_manifest(dseq, body), 404, UNKNOWN),
    ]
    for answer, status, text in cases:
        assert answer.status == status
        assert text is None or answer.body == text
    assert await asyncio.to_thread(_everything, world, rented) == before
    await close(world, provider, rented)


@pytest.mark.long  # the kill matrix kills a daemon in a create, test_kills.py a provider with a lease
async def test_killed_while_a_stack_is_being_created_it_converges_after_a_restart(world: World) -> None:
    provider = await world.run_provider()
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    started = asyncio.create_task(until_a_stack_is_locked(world))
    assert (await world.tenant.send_manifest(rented.lease, rented.sdl)).status == 200
    await started
    await provider.stop(number=signal.SIGKILL)
    provider = await world.run_provider()
    try:
        await provider.wait_for("lease.state", lease=str(rented.lease), phase="running", seconds=2 * PATIENCE_S)
        await close(world, provider, rented)
        assert await leftovers(world, rented.lease) == ()
    finally:
        await provider.stop()


async def test_a_dead_chain_is_named_waited_for_and_ends_no_lease(world: World) -> None:
    provider = await world.run_provider()
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await deploy(world, provider, rented)
    world.chain.faults.refuse = True
    try:
        mark = len(provider.events)
        said = await provider.wait_for("chain.unreachable", after=mark)
        assert world.chain.rpc_address.removeprefix("http://") in json.dumps(said)
        await provider.stop()
        provider = ProviderProcess(world.provider_env(), log=world.data / "provider.log")
        said = await provider.wait_for("chain.unreachable")
        assert world.chain.rpc_address.removeprefix("http://") in json.dumps(said)
        assert provider.running
        assert await asyncio.to_thread(_alive, world, rented)
        world.chain.faults.refuse = False
        await provider.wait_for("provider.ready", seconds=2 * PATIENCE_S)
        await provider.wait_for("lease.state", lease=str(rented.lease), phase="running")
        await close(world, provider, rented)
    finally:
        world.chain.faults.refuse = False
        await provider.stop()


async def test_a_dead_api_server_is_named_and_waited_for(world: World, tmp_path: Path) -> None:
    nobody = tmp_path / "kubeconfig"
    nobody.write_text(world.plane.kubeconfig.read_text().replace(world.plane.api_server, "https://127.0.0.1:9"))
    env = world.provider_env(KUBECONFIG=str(nobody), AP_HOME=str(tmp_path / "home"))
    provider = ProviderProcess(env, log=tmp_path / "log")
    try:
        await _keeps_trying(provider, "cluster.unreachable", "127.0.0.1:9")
    finally:
        assert await provider.stop() == 0


async def test_it_refuses_to_start_with_wrong_settings_and_says_which(world: World, tmp_path: Path) -> None:
    for change, word in (
        ({"AP_BID_PRICE_CPU_SCALE": "cheap"}, "AP_BID_PRICE_CPU_SCALE"),
        ({"AP_CHAIN_ID": "another-chain"}, "another-chain"),
    ):
        env = world.provider_env(AP_HOME=str(tmp_path / "home"), **change)
        provider = ProviderProcess(env, log=tmp_path / "log")
        for _ in range(300):
            if not provider.running:
                break
            await asyncio.sleep(0.1)
        assert await provider.stop() == 78
        assert word in (tmp_path / "log").read_text()


async def _keeps_trying(provider: ProviderProcess, event: str, address: str) -> None:
    """It logs two failures, each with the address, and runs on."""
    after = 0
    for _ in range(2):
        said = await provider.wait_for(event, after=after)
        assert address in json.dumps(said)
        after = provider.events.index(said, after) + 1
    assert provider.running


def _everything(world: World, rented: Rented) -> list[str]:
    """Every record, namespace and stack of the provider: what a refused request must not touch.

    The namespace and the stack of `rented` itself are left out: the engine makes them when the lease is won.
    """
    kinds = "manifests,providerhosts,providerleasedips,secrets"
    rows = _kubectl(world, "get", kinds, "-n", world.records, "-o", "name").split()
    rows += _kubectl(world, "get", "namespaces", "-l", "akash.network=true", "-o", "name").split()
    stacks = world.data / "provider" / "engine" / "stacks"
    rows += [path.name for path in stacks.iterdir() if stacks.is_dir()]
    own = namespace_name(rented.lease)
    return sorted(row for row in rows if row.rpartition("/")[2] != own)


def _alive(world: World, rented: Rented) -> bool:
    return "web" in _kubectl(world, "get", "deployments", "-n", namespace_name(rented.lease), "-o", "name")


def _kubectl(world: World, *arguments: str) -> str:
    argv = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
