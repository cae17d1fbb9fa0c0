"""Leased addresses on a control plane with MetalLB's controller: what a lease is not given is told and comes later."""

from __future__ import annotations

import json
import secrets
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.chain import LeaseState
from provider.protocols.clock import SystemClock
from tests.provider.lifecycle.real import real_world, runs, until
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease
from tests.world.patience import eventually

pytestmark = [pytest.mark.devnet, pytest.mark.long]
POOLS = ("-n", "metallb-system")
THIRD = "akash1pdsv0s32065drerxxdyltpk5tq0h8d2vtzs685"


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


async def test_addresses_of_an_operators_pool_are_leased_beside_its_own_services(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    """LESSOR_IP_POOLS: MetalLB refuses a second pool, so the Services ask for the addresses in the operator's."""
    network, number = f"198.19.{secrets.randbelow(250)}", secrets.randbelow(2**50)
    name = f"operators-{number}"
    world = World(clock=SystemClock(), ip_ranges=(), ip_pools=(name,))
    leases = (a_lease(number), a_lease(number + 1, owner=OTHER), a_lease(number + 2, owner=THIRD))
    await _put(devnet_cluster, _operators_pool(name, f"{network}.0/30"), _operators_service(name, f"{network}.1"))
    path = "jsonpath={.status.loadBalancer.ingress[*].ip}"

    async def shop() -> bool:
        given = await devnet_cluster.kubectl_async("-n", "default", "get", "service", name, "-o", path)
        return bool(given == f"{network}.1")

    await eventually(shop)
    async with real_world(devnet_cluster, toolbox, tmp_path, world=world) as (world, engine):
        try:
            for lease in leases:
                await world.win(lease, a_group(ip="meow"))
                world.loop.check(lease)
                await until(partial(_settled, world, lease), lambda: f"{dict(world.loop.statuses)}")
            assert [await _given(devnet_cluster, lease) for lease in leases] == [f"{network}.2", f"{network}.3", ""]
            assert "no free address" in world.loop.statuses[leases[2]].reason
            assert await _pools(devnet_cluster, network) == [name]

            world.chain.put_lease(leases[0], LeaseState.CLOSED)
            world.loop.check(leases[0])
            await until(lambda: runs(world, leases[2]), lambda: f"{dict(world.loop.statuses)}")
            assert await _given(devnet_cluster, leases[2]) == f"{network}.2"
            assert await shop() and await _pools(devnet_cluster, network) == [name]
        finally:
            for lease in leases:
                await engine.destroy(namespace_name(lease))
            await devnet_cluster.kubectl_async("-n", "default", "delete", "service", name)
            await devnet_cluster.kubectl_async(*POOLS, "delete", "ipaddresspool", name)


def _settled(world: World, lease: LeaseId) -> bool:
    status = world.loop.statuses.get(lease)
    return runs(world, lease) or (status is not None and status.phase is Phase.BLOCKED)


def _operators_pool(name: str, network: str) -> dict[str, Any]:
    meta, spec = {"name": name, "namespace": POOLS[1]}, {"addresses": [network], "autoAssign": False}
    return {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": meta, "spec": spec}


def _operators_service(name: str, address: str) -> dict[str, Any]:
    annotations = {"metallb.io/address-pool": name, "metallb.io/loadBalancerIPs": address}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


async def _put(devnet: Any, *objects: dict[str, Any]) -> None:
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    await devnet.kubectl_async("create", "-f", "-", stdin=items)


async def _pools(devnet: Any, address: str) -> list[str]:
    """The names of the pools that hold the address."""
    found = json.loads(await devnet.kubectl_async(*POOLS, "get", "ipaddresspools", "-o", "json"))["items"]
    return [item["metadata"]["name"] for item in found if any(address in text for text in item["spec"]["addresses"])]
