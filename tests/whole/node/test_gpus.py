"""GPUs on a real node, played by a device plugin: a lease gets its own card, a failed card is not rented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.node.configuration import NODE_NAME
from devnet.node.gpus import GPU_RESOURCE, UNHEALTHY, card_name
from devnet.node.members import kill_member
from lease.ids import LeaseId, namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import document, expose, service
from tests.whole.node.readers import is_running, until

pytestmark = [*MARKS, pytest.mark.long]
COUNT = 2
LABEL = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"


@pytest_asyncio.fixture(loop_scope="session")
async def cards(site: Site) -> AsyncIterator[None]:
    """The node has two cards, and the labels that Akash's inventory operator would set."""
    assert site.world.node is not None
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    assert "/var/lib/kubelet" in mounts, "the machine's own folder of sockets would be cleared"
    site.world.node.start_gpus(COUNT)
    labelled = await site.kubectl("label", "node", NODE_NAME, f"{LABEL}={COUNT}")
    assert labelled.status == 0, labelled
    await until(lambda: _allocatable(site, COUNT), "the kubelet offers the cards")
    yield
    kill_member("gpus")
    await site.kubectl("label", "node", NODE_NAME, f"{LABEL}-")
    await until(lambda: _allocatable(site, 0), "the cards are gone with their plugin")


async def test_a_lease_has_the_card_that_the_node_gave_it_and_a_failed_card_is_not_rented(
    site: Site, cards: None
) -> None:
    first = await rent(site.world, _renderer(1))
    await deploy(site.world, site.provider, first)
    card = await _card(site, first.lease)

    (other,) = {card_name(number) for number in range(COUNT)} - {card}
    UNHEALTHY.write_text(other)
    await until(lambda: _allocatable(site, COUNT - 1), "an unhealthy card is not allocatable")
    assert "gpu" in await _declined(site, _renderer(2))

    UNHEALTHY.unlink()
    await until(lambda: _allocatable(site, COUNT), "a card that has recovered is allocatable")
    second = await rent(site.world, _renderer(3))
    await deploy(site.world, site.provider, second)
    assert await _card(site, second.lease) == other
    assert "gpu" in await _declined(site, _renderer(4))

    UNHEALTHY.write_text(card)
    await until(lambda: _allocatable(site, COUNT - 1), "a card that fails in use is not allocatable either")
    assert await is_running(site, first.lease), "Kubernetes leaves a pod on its failed card alone"
    UNHEALTHY.unlink()
    for rented in (first, second):
        site.close(rented)


def _renderer(number: int) -> Sdl:
    """A service with one card and one without any."""
    exposes = expose(80, accept=[f"gpu-{number}.example.com"])
    return document(
        {"renderer": service(exposes, gpus=1, cpu="50m"), "web": service(expose(8080, "renderer"), cpu="50m")}
    )


async def _card(site: Site, lease: LeaseId) -> str:
    """The card of the lease's renderer, which has exactly this one's device; its other service has none."""
    namespace = namespace_name(lease)
    look = ("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; ls /dev/nvidia*; echo x > /dev/nvidia*")
    seen = await site.inside(namespace, "renderer", *look)
    card, device = seen.stdout.split()
    assert (card_name(int(device.removeprefix("/dev/nvidia"))), seen.status) == (card, 0), seen
    assert (await site.inside(namespace, "web", *look)).stdout.split() == ["void"]
    return card


async def _allocatable(site: Site, count: int) -> bool:
    path = f"jsonpath={{.status.allocatable.{GPU_RESOURCE.replace('.', chr(92) + '.')}}}"
    return (await site.kubectl("get", "node", NODE_NAME, "-o", path)).stdout == str(count)


async def _declined(site: Site, sdl: Sdl) -> str:
    """Why the provider does not bid on this."""
    mark = len(site.provider.events)
    deployment = await site.world.tenant.publish(sdl)
    event = await site.provider.wait_for("market.declined", after=mark, order=f"{deployment}/1/1")
    await site.world.tenant.close_deployment(deployment)
    return str(event["reasons"])
