"""The market reads what the inventory operator publishes of storage; settings hold instead of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from provider.bus import INVENTORY_CHANGED
from provider.errors import ClusterError
from provider.inventory.published import ReadStorage, storage_reader
from provider.inventory.watcher import InventoryWatcher
from provider.operators.inventory.documents import cluster_document
from provider.protocols.cluster import Kind
from provider.settings import Settings
from tests.provider.operators.inventory.world import World, node, operating, storage_class
from tests.world.bus import FakeBus
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock


def document(**sizes: str) -> dict[str, Any]:
    storage = [{"info": {"class": name}, "quantity": {"allocatable": size}} for name, size in sizes.items()]
    return {"nodes": [], "storage": storage}


@asynccontextmanager
async def watching(read: ReadStorage | None, **settings: Any) -> AsyncIterator[tuple[InventoryWatcher, FakeBus]]:
    bus, clock = FakeBus(), VirtualClock()
    watcher = InventoryWatcher(FakeCluster(), Settings(**settings), bus=bus, clock=clock, storage=read)
    task = asyncio.create_task(watcher.run())
    await clock.advance(1)
    try:
        yield watcher, bus
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.virtual_time
async def test_classes_have_the_published_sizes_and_settings_hold_instead() -> None:
    async def read() -> Mapping[str, Any]:
        return document(beta2="1Ti", beta3="800G")

    async with watching(read, storage_classes={"beta3": 0, "ram": 7}) as (watcher, _):
        await watcher.ready()
        assert watcher.inventory.pool_bytes == {"beta2": 1 << 40, "beta3": 0, "ram": 7}


@pytest.mark.virtual_time
async def test_a_new_size_is_an_inventory_change_within_two_seconds() -> None:
    sizes = {"beta2": "1Gi"}

    async def read() -> Mapping[str, Any]:
        return document(**sizes)

    async with watching(read) as (watcher, bus):
        before = len(bus.on(INVENTORY_CHANGED))
        sizes["beta2"] = "2Gi"
        await VirtualClock().advance(2.5)
        assert watcher.inventory.pool_bytes == {"beta2": 2 << 30}
        assert len(bus.on(INVENTORY_CHANGED)) == before + 1


@pytest.mark.virtual_time
async def test_an_operator_that_does_not_answer_leaves_the_sizes_and_is_logged_once() -> None:
    answers: list[dict[str, Any] | None] = [document(beta2="1Gi")]

    async def read() -> Mapping[str, Any]:
        if answers[0] is None:
            raise ClusterError("https://fake", "no endpoints available", status=503)
        return answers[0]

    with capture_logs() as logs:
        async with watching(read) as (watcher, _):
            for answer in (None, {}, {"storage": [{}]}, document(beta2="much")):
                answers[0] = answer
                await VirtualClock().advance(60)
                assert watcher.inventory.pool_bytes == {"beta2": 1 << 30}
            answers[0] = document()
            await VirtualClock().advance(31)
            assert watcher.inventory.pool_bytes == {}
    events = [one["event"] for one in logs if one["event"].startswith("inventory.storage")]
    assert events[0] == "inventory.storage_unreadable" and events[-1] == "inventory.storage_readable"
    assert len(events) <= 5


@pytest.mark.virtual_time
async def test_the_first_decision_waits_for_the_first_answer() -> None:
    asked = asyncio.Event()

    async def read() -> Mapping[str, Any]:
        await asked.wait()
        return document(beta2="1Gi")

    async with watching(read) as (watcher, _):
        ready = asyncio.create_task(watcher.ready())
        await VirtualClock().advance(5)
        assert not ready.done()
        asked.set()
        await ready
        assert watcher.inventory.pool_bytes == {"beta2": 1 << 30}


@pytest.mark.virtual_time
async def test_without_an_operator_only_settings_count() -> None:
    async def read() -> None:
        return None

    for reader in (read, None):
        async with watching(reader, storage_classes={"beta2": 5}) as (watcher, _):
            await watcher.ready()
            assert watcher.inventory.pool_bytes == {"beta2": 5}


@pytest.mark.virtual_time
async def test_the_market_knows_the_storage_of_a_cluster_that_nobody_described() -> None:
    """No operator has to say by hand what a cluster knows."""
    world = World()
    world.cluster.put(node())
    world.cluster.put(storage_class("beta2"))
    async with operating(world):

        async def read() -> Mapping[str, Any]:
            return cluster_document(world.state)

        watcher = InventoryWatcher(world.cluster, Settings(), bus=FakeBus(), clock=world.clock, storage=read)
        task = asyncio.create_task(watcher.run())
        await world.clock.advance(1)
        await watcher.ready()
        assert watcher.inventory.pool_bytes == {"beta2": 100 * 10**9}
        assert [one.storage_classes for one in watcher.inventory.nodes] == [("beta2",)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Services:
    """A cluster in which the Service of an operator answers these paths."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def through(self, kind: Kind, name: str, path: str, *, namespace: str, port: int | str) -> dict[str, Any]:
        assert (kind.kind, name, namespace, port) == ("Service", "operator-inventory", "akash-services", "rest")
        self.asked.append(path)
        if path.rpartition("/")[2] not in self.answers:
            raise ClusterError("https://fake", "not found", status=404)
        return self.answers[path.rpartition("/")[2]]


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ({"storage": document(a="1")}, ["v1/storage"]),
        ({"inventory": document(a="1")}, ["v1/storage", "v1/inventory"]),
    ],
)
async def test_the_go_provider_s_operator_is_read_too(answers: dict[str, Any], asked: list[str]) -> None:
    services = Services(**answers)
    read = storage_reader(services, "")
    assert read is not None
    assert await read() == document(a="1")
    assert services.asked == asked


async def test_a_cluster_without_the_service_has_no_operator() -> None:
    read = storage_reader(Services(), "")
    assert read is not None and await read() is None
    assert storage_reader(Services(), "off") is None


async def test_an_address_is_asked_directly() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(document(a="1"))

    app = web.Application()
    app.router.add_get("/v1/storage", answer)
    async with TestServer(app) as server:
        read = storage_reader(Services(), str(server.make_url("/")))
        assert read is not None
        assert await read() == document(a="1")
    with pytest.raises(ClusterError):
        await read()
