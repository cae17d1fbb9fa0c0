"""Who had a hostname or an address, and when, from what the watches report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lease.hostnames import route_name
from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim, host_object
from provider.claims.leased_ips import AddressClaim, leased_ip_object
from provider.claims.moves import Move
from provider.errors import StoreError
from provider.protocols.cluster import PROVIDER_HOST, PROVIDER_LEASED_IP, WatchEvent
from provider.runs.claims import ClaimHistory
from provider.store import Database
from provider.store.claims import claims_on
from tests.world.cluster import FakeCluster
from tests.world.database import MemoryDatabase
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
ONE = LeaseId("akash1tenant", 7, 1, 1, "akash1provider")
TWO = replace(ONE, dseq=8)
PORT = AddressClaim(ONE, "dns", 53, 53, "UDP", "akash1tenant-ip", "203.0.113.7")


class Life:
    """A cluster whose claims are followed. `said`: who had a name, and at which times after the beginning."""

    def __init__(self) -> None:
        self.cluster, self.database, self.clock = FakeCluster(), MemoryDatabase(), VirtualClock()
        self.begin = self.clock.now()

    def take(self, lease: LeaseId, name: str, *, move: int = 1, made: str = "") -> None:
        claim = HostnameClaim(name, lease, "web", 80)
        obj = host_object(lease, claim, namespace="lease", move=Move(move))
        if made:
            obj["metadata"]["creationTimestamp"] = made
        self.cluster.put(obj)

    async def drop(self, name: str) -> None:
        await self.cluster.delete(PROVIDER_HOST, route_name(name), namespace="lease")

    async def said(self, name: str) -> list[tuple[int, int, int | None]]:
        rows = await claims_on(self.database, name)
        return [
            (
                one.claim.lease.dseq,
                round(one.given_at - self.begin),
                None if one.released_at is None else round(one.released_at - self.begin),
            )
            for one in rows
        ]

    @asynccontextmanager
    async def followed(self, database: Database | None = None) -> AsyncIterator[ClaimHistory]:
        history = ClaimHistory(database or self.database, self.clock, provider="akash1provider")
        kinds = (PROVIDER_HOST, PROVIDER_LEASED_IP)
        work = [asyncio.create_task(each) for each in (*(self._watch(history, kind) for kind in kinds), history.run())]
        try:
            yield history
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _watch(self, history: ClaimHistory, kind: Any) -> None:
        async for event in self.cluster.watch(kind, namespace="lease", current=partial(history.mark, kind)):
            history.note(kind, event)


@pytest.fixture
async def life() -> AsyncIterator[Life]:
    life = Life()
    yield life
    await life.database.close()


async def test_a_hostname_is_given_migrated_and_given_back_and_each_time_is_kept(life: Life) -> None:
    async with life.followed():
        await asyncio.sleep(10)
        life.take(ONE, "app.example.com")
        await asyncio.sleep(10)
        life.take(ONE, "app.example.com")
        life.take(TWO, "app.example.com", move=2)
        await asyncio.sleep(10)
        await life.drop("app.example.com")
        await asyncio.sleep(10)
    assert await life.said("app.example.com") == [(8, 20, 30), (7, 10, 20)]


async def test_an_address_counts_from_the_moment_that_it_is_chosen(life: Life) -> None:
    async with life.followed():
        life.cluster.put(leased_ip_object(PORT.at(""), namespace="lease"))
        await asyncio.sleep(10)
        assert await life.said("203.0.113.7") == []
        life.cluster.put(leased_ip_object(PORT, namespace="lease", status=True), status=True)
        await asyncio.sleep(10)
        assert await life.said("203.0.113.7") == [(7, 10, None)]
        (row,) = await claims_on(life.database, "203.0.113.7")
        assert (row.claim.port, row.claim.service) == ("53/UDP", "dns:53")


async def test_what_happened_while_the_provider_was_stopped_is_found_at_the_next_start(life: Life) -> None:
    async with life.followed():
        life.take(ONE, "gone.example.com")
        life.take(ONE, "stays.example.com")
        await asyncio.sleep(10)
    await life.drop("gone.example.com")
    life.take(TWO, "new.example.com")
    await asyncio.sleep(10)
    async with life.followed():
        await asyncio.sleep(10)
    assert await life.said("gone.example.com") == [(7, 0, 20)], "given back when it was noticed"
    assert await life.said("stays.example.com") == [(7, 0, None)], "nothing was written twice"
    assert await life.said("new.example.com") == [(8, 20, None)]


async def test_after_a_lost_store_the_cluster_says_since_when_a_claim_is_held(life: Life) -> None:
    life.take(ONE, "old.example.com", made="2020-01-01T00:00:00Z")
    life.take(TWO, "moved.example.com", move=3, made="2020-01-01T00:00:00Z")
    life.take(TWO, "odd.example.com", made="yesterday")
    async with life.followed():
        await asyncio.sleep(10)
        (row,) = await claims_on(life.database, "old.example.com")
        assert row.given_at == 1_577_836_800.0
        assert await life.said("moved.example.com") == await life.said("odd.example.com") == [(8, 0, None)]


async def test_claims_of_another_provider_and_broken_objects_are_no_claims_here(life: Life) -> None:
    life.take(replace(ONE, provider="akash1another"), "foreign.example.com")
    life.cluster.put({
        "apiVersion": PROVIDER_HOST.api_version, "kind": PROVIDER_HOST.kind,
        "metadata": {"name": "broken.example.com", "namespace": "lease", "labels": {"akash.network": "true"}},
        "spec": {"hostname": 7},
    })  # fmt: skip
    async with life.followed():
        await asyncio.sleep(10)
        assert await life.said("foreign.example.com") == await life.said("broken.example.com") == []


async def test_a_watch_that_has_not_listed_all_ends_no_claim(life: Life) -> None:
    async with life.followed():
        life.take(ONE, "app.example.com")
        await asyncio.sleep(10)
    history = ClaimHistory(life.database, life.clock, provider="akash1provider")
    history.note(PROVIDER_HOST, WatchEvent("ADDED", _named("other.example.com")))
    history.mark(PROVIDER_LEASED_IP, True)
    history.mark(PROVIDER_HOST, False)
    await history.write()
    assert await life.said("app.example.com") == [(7, 0, None)]


def _named(name: str) -> dict[str, Any]:
    return host_object(ONE, HostnameClaim(name, ONE, "web", 80), namespace="lease")


class _Full(MemoryDatabase):
    full = False

    def __init__(self) -> None:
        super().__init__(refuses=lambda: _Full.full)


async def test_a_store_that_cannot_be_written_is_written_when_it_can(life: Life) -> None:
    _Full.full = True
    database = _Full()
    life.database = database
    async with life.followed():
        life.take(ONE, "app.example.com")
        await asyncio.sleep(100)
        assert await life.said("app.example.com") == []
        life.take(TWO, "app.example.com", move=2)
        await asyncio.sleep(10)
        _Full.full = False
        await asyncio.sleep(60)
    assert await life.said("app.example.com") == [(8, 100, None)]


async def test_the_error_of_a_failed_write_is_a_store_error(life: Life) -> None:
    _Full.full = True
    history = ClaimHistory(_Full(), life.clock, provider="akash1provider")
    history.note(PROVIDER_HOST, WatchEvent("ADDED", _named("app.example.com")))
    with pytest.raises(StoreError):
        await history.write()
    _Full.full = False
