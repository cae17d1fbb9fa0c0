"""The public topics: what is published, under both names, and without secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lease.ids import LeaseId
from provider.errors import ClusterError
from provider.gateway.provider_status import ProviderStatus, status_document
from provider.lifecycle.state import LEASE_STATE, LeaseStatus, Phase
from provider.observe.publication import publish_status
from tests.world.bus import FakeBus
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
LEASE = LeaseId("akash1owner", 7, 1, 1, "akash1provider")


def a_document(**counts: Any) -> dict[str, Any]:
    status = ProviderStatus(**counts)
    return status_document(status, address="akash1provider", public_hostname="", reclamation_window_ns=0)


async def test_each_part_of_the_status_is_retained_under_both_names_and_again_only_when_it_changes() -> None:
    bus, shown = FakeBus(), [a_document(orders=1)]

    def status() -> dict[str, Any]:
        if not shown:
            raise ClusterError("https://api", "away")
        return shown[-1]

    task = asyncio.create_task(publish_status(bus, status, mask=lambda _, text: text, clock=VirtualClock()))
    await asyncio.sleep(60)
    for name in ("akash.provider.provider.status", "provider-status"):
        async with bus.subscribe(name) as late:
            assert await anext(aiter(late)) == shown[-1]
    assert len(bus.published) == 5
    shown.append(a_document(orders=2))
    await asyncio.sleep(6)
    assert [topic for topic, _ in bus.published[5:]] == ["provider-status", "bidengine-status"]
    assert bus.on("bidengine-status")[-1] == {"orders": 2}
    shown.clear()
    await asyncio.sleep(60)
    assert len(bus.published) == 7 and not task.done()
    task.cancel()


async def test_the_state_of_a_lease_is_published_at_once_without_secrets() -> None:
    bus = FakeBus()
    task = asyncio.create_task(
        publish_status(bus, a_document, mask=lambda _, text: text.replace("hunter2", "…"), clock=VirtualClock())
    )
    await asyncio.sleep(1)
    async with bus.subscribe("akash.provider.leases.status") as public:
        bus.publish(LEASE_STATE, LeaseStatus(LEASE, Phase.FAILED, "PASSWORD=hunter2", 1.0))
        found = await anext(aiter(public))
    assert found == LeaseStatus(LEASE, Phase.FAILED, "PASSWORD=…", 1.0)
    task.cancel()
