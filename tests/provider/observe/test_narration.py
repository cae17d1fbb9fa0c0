"""The rows of leases: states and accepted manifests that come while the store writes share its next transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lease.ids import LeaseId, namespace_name
from provider.bus.memory import MemoryBus
from provider.lifecycle.state import LEASE_STATE, LeaseStatus, Phase
from provider.observe.narration import narrate
from provider.records.accepted import MANIFEST_STORED, AcceptedManifest
from provider.store.leases import known_leases
from provider.store.manifests import manifests_of
from tests.world.database import MemoryDatabase
from tests.world.patience import eventually

LEASES = [LeaseId("akash1tenant", dseq, 1, 1, "akash1provider") for dseq in range(1, 21)]


class SlowDatabase(MemoryDatabase):
    """The first transaction begins when `go_on` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go_on, self.transactions = asyncio.Event(), 0

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Any]:
        self.transactions += 1
        await self.go_on.wait()
        async with super().writing() as connection:
            yield connection


async def test_rows_that_come_while_the_store_writes_share_its_next_transactions(tmp_path: Path) -> None:
    bus, database = MemoryBus(), SlowDatabase(tmp_path / "x.db")
    task = asyncio.create_task(narrate(bus, database, mask=lambda _, text: text.replace("pa55", "***")))
    await asyncio.sleep(0)
    first = LeaseStatus(LEASES[0], Phase.BLOCKED, "pa55", 1.0)
    bus.publish(LEASE_STATE, first)
    await eventually(lambda: database.transactions == 1)
    for lease in LEASES:
        bus.publish(MANIFEST_STORED, AcceptedManifest(lease, 2.0, "a" * 64, "b" * 64, 100, 1))
        bus.publish(LEASE_STATE, replace(first, lease=lease, phase=Phase.APPLYING, reason="", since=3.0))
    await asyncio.sleep(0)
    database.go_on.set()
    await eventually(lambda: database.transactions >= 3)
    while len(await manifests_of(database, namespace_name(LEASES[-1]))) != 1:
        await asyncio.sleep(0)
    assert {status.phase for status in await known_leases(database)} == {Phase.APPLYING}
    assert (len(await known_leases(database)), database.transactions) == (20, 3)
    task.cancel()
    await asyncio.wait([task])
    await database.close()


async def test_a_store_that_hangs_costs_the_oldest_rows_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.observe.narration._WAITING", 5)
    bus, database = MemoryBus(), SlowDatabase(tmp_path / "x.db")
    task = asyncio.create_task(narrate(bus, database, mask=lambda _, text: text))
    await asyncio.sleep(0)
    bus.publish(LEASE_STATE, LeaseStatus(LEASES[0], Phase.APPLYING, "", 1.0))
    await eventually(lambda: database.transactions == 1)
    for lease in LEASES[1:]:
        bus.publish(LEASE_STATE, LeaseStatus(lease, Phase.APPLYING, "", 2.0))
    await asyncio.sleep(0.1)
    database.go_on.set()
    await eventually(lambda: database.transactions == 2)
    while len(await known_leases(database)) < 6:
        await asyncio.sleep(0)
    assert {status.lease for status in await known_leases(database)} == {LEASES[0], *LEASES[-5:]}
    task.cancel()
    await asyncio.wait([task])
    await database.close()
