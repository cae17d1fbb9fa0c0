"""Kills at awkward moments of a lease's life: it converges without a human, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from devnet.demo.leftovers import leftovers
from devnet.world import ProviderProcess, World
from lease.ids import namespace_name
from lease.manifest import Group
from lease.manifest_json import manifest_version
from lease.sdl import Sdl
from stacks.common.processes import survivors
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of, until_a_stack_is_locked
from tests.whole.test_faults import EXAMPLES
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
NEW_IMAGE = "docker.io/library/nginx:1.28"


@pytest.mark.parametrize(
    "with_workers",
    [
        pytest.param(False, id="daemon", marks=pytest.mark.long),  # its workers are left behind: the harder of the two
        pytest.param(True, id="daemon and workers", marks=pytest.mark.long),
    ],
)
async def test_killed_in_an_update_and_again_in_the_destroy_it_converges_and_leaves_nothing(
    world: World, with_workers: bool
) -> None:
    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    await deploy(world, provider, rented)
    await _update(world, rented, _with_image(rented.sdl, NEW_IMAGE))
    await until_a_stack_is_locked(world)
    await _kill(world, provider, with_workers=with_workers)

    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    await provider.wait_for("lease.state", lease=str(rented.lease), phase="running", seconds=2 * PATIENCE_S)
    assert await _web(world, rented, "{..image}") == NEW_IMAGE
    await world.tenant.close_deployment(rented.deployment)
    await until_a_stack_is_locked(world)
    await _kill(world, provider, with_workers=with_workers)

    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    try:
        await _until_nothing_is_left(world, rented)
    finally:
        await provider.stop()


async def test_with_its_home_lost_it_replaces_no_pod_and_the_next_update_removes_what_it_drops(world: World) -> None:
    provider = await world.run_provider(seconds=2 * PATIENCE_S)
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    await deploy(world, provider, rented)
    before = await _kubectl(world, rented, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
    await provider.stop(number=signal.SIGKILL)
    shutil.rmtree(world.data / "provider")

    # the one provider of this folder whose workers run Pulumi's SDK: it goes on with what a list has made
    provider = await world.run_provider(seconds=2 * PATIENCE_S, LESSOR_ENGINE_PROGRAM="sdk")
    try:
        await provider.wait_for("lease.state", lease=str(rented.lease), phase="running", seconds=2 * PATIENCE_S)
        mark = len(provider.events)
        await _update(world, rented, _with_host(rented.sdl, "moved.demo.example.com"))
        await provider.wait_for(
            "lease.state", lease=str(rented.lease), phase="running", after=mark, seconds=2 * PATIENCE_S
        )
        hosts = await _kubectl(world, rented, "get", "ingress", "-o", "jsonpath={..host}")
        assert "moved.demo.example.com" in hosts and "web.demo.example.com" not in hosts
        after = await _kubectl(world, rented, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
        assert set(before.split()) & set(after.split()), "the database was not touched by the update"
        await close(world, provider, rented)
        assert await leftovers(world, rented.lease) == ()
    finally:
        await provider.stop()


@pytest.mark.long  # tests/provider/daemon has the lock of the home
async def test_a_second_provider_in_the_same_home_refuses_and_harms_nothing(
    world: World, provider: ProviderProcess
) -> None:
    env = world.provider_env(AP_GATEWAY_LISTEN_ADDRESS="127.0.0.1:0")
    second = ProviderProcess(env, log=world.data / "second.log")
    for _ in range(300):
        if not second.running:
            break
        await asyncio.sleep(0.1)
    assert await second.stop() == 2
    assert "in use by another lessor process" in (world.data / "second.log").read_text()
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await deploy(world, provider, rented)
    await close(world, provider, rented)


async def _update(world: World, rented: Rented, sdl: Sdl) -> None:
    await world.tenant.announce_update(rented.deployment, sdl)
    assert (await world.tenant.send_manifest(rented.lease, sdl)).status == 200


async def _kill(world: World, provider: ProviderProcess, *, with_workers: bool) -> None:
    others = survivors(world.data / "provider" / "engine") if with_workers else []
    await provider.stop(number=signal.SIGKILL)
    for pid in others:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


async def _until_nothing_is_left(world: World, rented: Rented) -> None:
    deadline = time.monotonic() + 90
    while left := await leftovers(world, rented.lease):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.5)


def _with_image(sdl: Sdl, image: str) -> Sdl:
    (group,) = sdl.manifest
    services = tuple(replace(s, image=image) if s.name == "web" else s for s in group.services or ())
    return _with_manifest(sdl, replace(group, services=services))


def _with_host(sdl: Sdl, host: str) -> Sdl:
    (group,) = sdl.manifest
    services = tuple(
        replace(s, expose=tuple(replace(e, hosts=(host,)) if e.hosts else e for e in s.expose or ()))
        for s in group.services or ()
    )
    return _with_manifest(sdl, replace(group, services=services))


def _with_manifest(sdl: Sdl, group: Group) -> Sdl:
    manifest = (group,)
    return replace(sdl, manifest=manifest, version=manifest_version(manifest))


async def _web(world: World, rented: Rented, path: str) -> str:
    return await _kubectl(world, rented, "get", "deployment", "web", "-o", f"jsonpath={path}")


async def _kubectl(world: World, rented: Rented, *arguments: str) -> str:
    kubectl = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig)]
    argv = [*kubectl, "-n", namespace_name(rented.lease), *arguments]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=True)
    return str(done.stdout)
