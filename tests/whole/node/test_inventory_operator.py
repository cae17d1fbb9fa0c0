"""The inventory operator on a real node: a device plugin speaks the kubelet's socket, and a real pod is the discovery
pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from devnet.node.configuration import NODE_NAME
from devnet.node.gpus import UNHEALTHY, card_name
from devnet.node.members import kill_member
from provider.bus import MemoryBus
from provider.kube.client import KubeCluster
from provider.operators.inventory.discovery_pod import DiscoveryOptions, pod_name
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.registry_source import RegistryError
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import NODE, POD
from tests.provider.operators.inventory.world import cards
from tests.whole.node.conftest import MARKS, Site
from tests.world.patience import eventually

pytestmark = [*MARKS, pytest.mark.long]
NAMESPACE = "inventory-operator"
COUNT = 2
MODEL = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait", "psutil")
"""The stand-in for the image of a provider; what the operator appends are arguments that a shell ignores."""


class Discovered:
    """The operator over the real API server. The node's machine has no cards, so that a script answers for it."""

    def __init__(self, site: Site) -> None:
        self.client = KubeCluster(site.world.plane.kubeconfig)
        self.asked = 0
        discovery = DiscoveryOptions(NAMESPACE, "lessor.test/inventory:1", account="default", command=SLEEP)
        self.operator = InventoryOperator(
            self.client,
            OperatorOptions(discovery),
            ask=self._ask,
            ceph_df=self._nothing,
            fetch=self._no_registry,
            bus=MemoryBus(),
            clock=SystemClock(),
        )

    async def _ask(self, pod: str, namespace: str) -> Mapping[str, Any]:
        self.asked += 1
        return cards(*[("10de", "20b5")] * COUNT)

    async def _nothing(self, namespace: str) -> str:
        raise AssertionError(namespace)

    async def _no_registry(self) -> bytes:
        raise RegistryError("an enclosure reaches nothing")

    def allocatable(self) -> int | None:
        """Cards that the published state offers; None while the node is not published."""
        state = self.operator.publication.state
        found = [one for one in (state.nodes if state else ()) if one.name == NODE_NAME]
        return found[0].gpu.allocatable if found else None

    async def label(self) -> str | None:
        node = await self.client.get(NODE, NODE_NAME)
        assert node is not None
        return node["metadata"]["labels"].get(MODEL)

    async def shows(self, count: int) -> bool:
        return self.allocatable() == count and await self.label() == (str(count) if count else None)


@pytest_asyncio.fixture(loop_scope="session")
async def discovered(site: Site) -> AsyncIterator[Discovered]:
    assert site.world.node is not None
    await site.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    found = Discovered(site)
    task = asyncio.create_task(found.operator.run())
    try:
        yield found
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await found.client.aclose()


async def test_a_card_is_advertised_as_long_as_its_device_plugin_calls_it_healthy(
    site: Site, discovered: Discovered
) -> None:
    assert site.world.node is not None
    await eventually(lambda: discovered.asked > 0)
    assert await discovered.shows(0), "no plugin has offered the cards"
    site.world.node.start_gpus(COUNT)
    try:
        await eventually(lambda: discovered.shows(COUNT))
        UNHEALTHY.write_text(card_name(1))
        await eventually(lambda: discovered.shows(COUNT - 1))
        UNHEALTHY.write_text(f"{card_name(0)} {card_name(1)}")
        await eventually(lambda: discovered.shows(0))
        UNHEALTHY.unlink()
        await eventually(lambda: discovered.shows(COUNT))
    finally:
        UNHEALTHY.unlink(missing_ok=True)
        kill_member("gpus")
    await eventually(lambda: discovered.shows(0))


async def test_a_discovery_pod_that_is_deleted_runs_again_and_is_asked_again(
    site: Site, discovered: Discovered
) -> None:
    await eventually(lambda: discovered.asked > 0)
    before = await discovered.client.get(POD, pod_name(NODE_NAME), namespace=NAMESPACE)
    assert before is not None
    asked = discovered.asked
    await discovered.client.delete(POD, pod_name(NODE_NAME), namespace=NAMESPACE)
    await eventually(lambda: discovered.asked > asked)
    after = await discovered.client.get(POD, pod_name(NODE_NAME), namespace=NAMESPACE)
    assert after is not None and after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_cordon_takes_the_node_out_of_the_state_and_back(site: Site, discovered: Discovered) -> None:
    await eventually(lambda: discovered.allocatable() is not None)
    for verb, offered in (("cordon", False), ("uncordon", True)):
        assert (await site.kubectl(verb, NODE_NAME)).status == 0
        await eventually(lambda offered=offered: (discovered.allocatable() is not None) is offered)  # type: ignore[misc]
