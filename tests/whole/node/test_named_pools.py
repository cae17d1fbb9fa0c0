"""An address of the operator's own pool (LESSOR_IP_POOLS), announced by MetalLB's speaker and answered from outside."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Address
from typing import Any

import pytest
import pytest_asyncio

from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import close, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import document, expose, service
from tests.whole.node.readers import restart_provider, until

pytestmark = [*MARKS, pytest.mark.long]

POOL, FIRST, LAST = "operators-own", "203.0.113.40", "203.0.113.42"
"""Addresses on the wire outside of the range that the other tests lease."""
METALLB = "metallb-system"
SHOP = FIRST
"""The address of a service of the operator's own in that pool."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(site: Site) -> AsyncIterator[Site]:
    """The provider leases from the operator's pool and has no range of its own."""
    api = {"apiVersion": "metallb.io/v1beta1"}
    meta = {"name": POOL, "namespace": METALLB}
    await site.apply(
        {**api, "kind": "IPAddressPool", "metadata": meta, "spec": {"addresses": [f"{FIRST}-{LAST}"]}},
        {**api, "kind": "L2Advertisement", "metadata": meta, "spec": {"ipAddressPools": [POOL]}},
        _shop(),
    )
    await until(lambda: _given(site, "default", SHOP), f"{SHOP} for the operator's own service")
    await restart_provider(site, LESSOR_IP_RANGES="", LESSOR_IP_POOLS=POOL)
    yield site
    await restart_provider(site)
    await site.kubectl("-n", "default", "delete", "service", "shop")
    await site.kubectl("-n", METALLB, "delete", "ipaddresspool,l2advertisement", POOL)


def _shop() -> dict[str, Any]:
    asked = {"metallb.io/loadBalancerIPs": SHOP}
    spec = {"type": "LoadBalancer", "selector": {"app": "shop"}, "ports": [{"port": 80}]}
    meta = {"name": "shop", "namespace": "default", "annotations": asked}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


async def test_an_address_of_the_operators_pool_answers_from_outside_until_its_lease_is_closed(shared: Site) -> None:
    rented = await rent(shared.world, _document())
    await deploy(shared.world, shared.provider, rented)
    status = await shared.lease_status(shared.world, rented.deployment)
    leased = status["ips"]["web"][0]["IP"]
    assert IPv4Address(SHOP) < IPv4Address(leased) <= IPv4Address(LAST)
    page = ("curl", "-sS", "--retry", "5", "--retry-all-errors", "-m", "5", f"http://{leased}:443/")
    assert "hello from web-" in (await shared.outside(*page)).stdout
    assert await _pools(shared) == [POOL], "MetalLB refuses a second pool with the address"
    await close(shared.world, shared.provider, rented)
    assert "hello from" not in (await shared.outside("curl", "-sS", "-m", "2", f"http://{leased}:443/")).stdout
    assert await _pools(shared) == [POOL] and await _given(shared, "default", SHOP)
    assert not await _given(shared, namespace_name(rented.lease), leased)


def _document() -> Sdl:
    return document({"web": service(expose(8443, external=443, ip="front"), command=_SERVES)}, endpoints=["front"])


_SERVES = ["standin", "serve", "8443"]


async def _pools(site: Site) -> Sequence[str]:
    listed = await site.kubectl("-n", METALLB, "get", "ipaddresspools", "-o", "json")
    held = {item["metadata"]["name"]: item["spec"]["addresses"] for item in json.loads(listed.stdout)["items"]}
    prefix = FIRST.rpartition(".")[0] + ".4"
    return sorted(name for name, addresses in held.items() if str(addresses[0]).startswith(prefix))


async def _given(site: Site, namespace: str, address: str) -> bool:
    """Whether a Service of the namespace has the address."""
    path = "jsonpath={.items[*].status.loadBalancer.ingress[*].ip}"
    return address in (await site.kubectl("-n", namespace, "get", "services", "-o", path)).stdout.split()
