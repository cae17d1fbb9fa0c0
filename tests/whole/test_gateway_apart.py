"""The whole path with the gateway in a process of its own: the tenant notices nothing, and nothing is left."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.demo.leftovers import leftovers
from devnet.world import World
from lease.manifest_json import manifest_version
from lease.sdl import Sdl
from provider.settings import GatewayForm
from tests.provider.gateway.issuer.pebble import NAME, Pebble, running_pebble, served, verified
from tests.whole.conftest import MARKS, close, deploy, rent, sdl_of
from tests.whole.gateways import running_apart
from tests.whole.streams import messages, opened
from tests.whole.test_whole_path import EXAMPLES
from tests.world.patience import PATIENCE_S, eventually

pytestmark = MARKS


@pytest.mark.long  # tests/provider/daemon has the child without a cluster
async def test_a_gateway_that_is_a_child_serves_a_lease_its_whole_way_and_the_certificate_that_its_provider_orders(
    world: World, tmp_path: Path
) -> None:
    async with running_pebble(tmp_path / "ca") as ca, running_apart(world, GatewayForm.CHILD, **ordering(ca)) as both:
        rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
        await deploy(world, both.provider, rented)
        gateway = await world.tenant.gateway(world.provider)
        status = json.loads((await gateway.lease_status(rented.lease.dseq)).body)
        assert {name: service["available"] for name, service in status["services"].items()} == {"web": 2}
        async with opened(world, rented, "kubeevents") as socket:
            reasons = {event["reason"] async for event in messages(socket)}
        assert "Scheduled" in reasons
        await both.provider.wait_for("gateway.certificate_issued", seconds=PATIENCE_S)
        await eventually(lambda: _is_issued(world, NAME))
        await verified(world.gateway_port, await ca.root())
        assert not await _is_issued(world, ""), "clients that look on the chain get the account certificate"
        await close(world, both.provider, rented)
        assert await leftovers(world, rented.lease) == ()


@pytest.mark.long
async def test_a_separate_gateway_serves_a_lease_while_its_provider_restarts(world: World) -> None:
    async with running_apart(world, GatewayForm.SEPARATE) as both:
        rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
        await deploy(world, both.provider, rented)
        changed = _with_image(rented.sdl, "docker.io/library/nginx:1.28")
        async with opened(world, rented, "kubeevents?follow=true") as socket:
            assert await both.provider.stop() == 0
            gateway = await world.tenant.gateway(world.provider)
            assert (await gateway.lease_status(rented.lease.dseq)).status == 200
            await world.tenant.announce_update(rented.deployment, changed)
            sending = asyncio.create_task(world.tenant.send_manifest(rented.lease, changed))
            await both.start_provider()
            assert (await sending).status == 200, "the manifest waits for the provider"
            await both.provider.wait_for("stack.result", operation="up", seconds=2 * PATIENCE_S)
            async with asyncio.timeout(PATIENCE_S):
                async for event in messages(socket):
                    if event["reason"] == "ScalingReplicaSet" and "to 0" in event["note"]:
                        break  # the version before is gone: the stream has outlived the restart
        await close(world, both.provider, rented)
        assert await leftovers(world, rented.lease) == ()


def ordering(ca: Pebble) -> dict[str, str]:
    """The settings of a provider that orders its certificate at this CA."""
    return {
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": ca.directory,
        "AP_CERT_ISSUER_HTTP_CHALLENGE_PORT": f"127.0.0.1:{ca.challenges}",
        "LESSOR_CERT_ISSUER_CA_FILE": str(ca.roots),
    }


async def _is_issued(world: World, name: str) -> bool:
    """Whether a client that asks for `name` gets a certificate that another has signed."""
    found = await served(world.gateway_port, name)
    return found.issuer != found.subject


def _with_image(sdl: Sdl, image: str) -> Sdl:
    """The document with another image in its only service."""
    (group,) = sdl.manifest
    (service,) = group.services or ()
    manifest = (replace(group, services=(replace(service, image=image),)),)
    return replace(sdl, manifest=manifest, version=manifest_version(manifest))
