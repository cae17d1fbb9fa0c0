"""Leased addresses on a control plane with MetalLB's controller: what a lease is not given is told and comes later."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.chain import LeaseState
from provider.protocols.clock import SystemClock
from tests.provider.lifecycle.real import real_world, until
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = [pytest.mark.devnet, pytest.mark.long]
POOLS = ("-n", "metallb-system")


async def _given(devnet: Any, lease: LeaseId) -> str:
    """The addresses of the lease's Services, as MetalLB's controller gave them."""
    path = "jsonpath={.items[*].status.loadBalancer.ingress[*].ip}"
    return str(await devnet.kubectl_async("-n", namespace_name(lease), "get", "services", "-o", path))


async def test_a_lease_waits_for_its_address_as_long_as_metallb_or_another_lease_keeps_it(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    address = f"198.18.{secrets.randbelow(250)}.7"
    world = World(clock=SystemClock(), ip_ranges=(f"{address}-{address}",), repair_drift=False)
    number = secrets.randbelow(2**50)
    first, second = a_lease(number), a_lease(number + 1)

    async def reads(lease: LeaseId, phase: Phase, text: str = "") -> None:
        def is_so() -> bool:
            status = world.loop.statuses.get(lease)
            return (
                status is not None and status.phase is phase and (text in status.reason if text else not status.reason)
            )

        await until(is_so, lambda: f"{phase} {text!r}: {dict(world.loop.statuses)}")

    async with real_world(devnet_cluster, toolbox, tmp_path, world=world) as (world, engine):
        try:
            for lease in (first, second):
                await world.win(lease, a_group(ip="meow"))
                world.loop.check(lease)
                await reads(lease, Phase.RUNNING, "has it on the same IP endpoint" if lease == second else "")
            assert (await _given(devnet_cluster, first), await _given(devnet_cluster, second)) == (address, "")
            assert "port 80/TCP of service web has no address" in tenant_text(world.loop.statuses[second])

            (name,) = await _pools(devnet_cluster, address)
            pool = json.loads(await devnet_cluster.kubectl_async(*POOLS, "get", "ipaddresspool", name, "-o", "json"))
            await devnet_cluster.kubectl_async(*POOLS, "delete", "ipaddresspool", name)
            await reads(first, Phase.DEGRADED, f"port 80/TCP waits for its address {address}")
            assert world.loop.statuses[first].of_the_provider
            path = tmp_path / "pool.json"
            meta = {key: pool["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
            path.write_text(json.dumps(pool | {"metadata": meta}))
            await devnet_cluster.kubectl_async("apply", "-f", str(path))
            await reads(first, Phase.RUNNING)

            world.chain.put_lease(first, LeaseState.CLOSED)
            world.loop.check(first)
            await reads(second, Phase.RUNNING)
            assert await _given(devnet_cluster, second) == address
        finally:
            for lease in (first, second):
                await engine.destroy(namespace_name(lease))
            for name in await _pools(devnet_cluster, address):
                await devnet_cluster.kubectl_async(*POOLS, "delete", "ipaddresspool,l2advertisement", name)


async def _pools(devnet: Any, address: str) -> list[str]:
    """The names of the pools that hold the address."""
    found = json.loads(await devnet.kubectl_async(*POOLS, "get", "ipaddresspools", "-o", "json"))["items"]
    return [item["metadata"]["name"] for item in found if any(address in text for text in item["spec"]["addresses"])]
