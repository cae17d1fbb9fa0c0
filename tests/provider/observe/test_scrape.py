"""What Prometheus reads: the Go provider's names, the state of the moment, both formats, its own listener."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as classic

from lease.ids import LeaseId
from provider.bus import MemoryBus
from provider.errors import SettingsError
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.lifecycle.state import LEASE_STATE, STACK_RESULT, LeaseStatus, Phase, StackReport
from provider.metrics import REGISTRY
from provider.observe.narration import narrate
from provider.observe.scrape import Scrape, markdown, serve_metrics
from stacks.common import Operation, StackResult
from tests.provider.gateway.world import new_world
from tests.world.database import MemoryDatabase

DOCS = Path(__file__).parents[3] / "docs"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
LEASES = {
    LeaseId("akash1t", dseq, 1, 1, "akash1p"): LeaseStatus(LeaseId("akash1t", dseq, 1, 1, "akash1p"), phase, "", 0.0)
    for dseq, phase in enumerate((Phase.RUNNING, Phase.WAITING_FOR_MANIFEST, Phase.QUARANTINED))
}
SMALL, LARGE = Amounts(500, 1, 2**30, 2**20, {"beta2": 2**31}), Amounts(8000, 4, 2**35, 2**40)
STATUS = ProviderStatus(
    leases=2,
    orders=3,
    active=(SMALL,),
    pending=(SMALL, SMALL),
    nodes=(NodeAmounts("n", LARGE, SMALL),),
    storage_bytes={"beta2": 7},
)


def values(scrape: Scrape) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = scrape.exposition(OPEN_METRICS)[0].decode()
    return {(one.name, frozenset(one.labels.items())): one.value for each in open_metrics(text) for one in each.samples}


def scrape(status: Callable[[], ProviderStatus] = lambda: STATUS) -> Scrape:
    return Scrape(status, lambda: LEASES)


def test_every_metric_of_the_go_provider_is_served() -> None:
    table = (DOCS / "protocol" / "gateway.md").read_text().partition("## 8. Prometheus")[2].partition("\n## 9")[0]
    names = set(re.findall(r"`(provider_\w+)`", table))
    served = {family.name for family in open_metrics(scrape().exposition(OPEN_METRICS)[0].decode())}
    assert len(names) >= 18 and names <= served


def test_gauges_show_leases_reservations_and_what_is_free() -> None:
    found = values(scrape())

    def value(name: str, **labels: str) -> float:
        return found[name, frozenset(labels.items())]

    assert value("provider_deployment_manager") == 2, "a quarantined lease is served no more"
    assert (value("provider_manifest_manager"), value("provider_order_watchdog")) == (1, 1)
    assert value("lessor_leases", phase="quarantined") == 1
    reservations = "provider_inventory_reservations_total"
    assert value(reservations, classification="none", quantity="quantity") == 3
    assert value(reservations, classification="none", quantity="allocated") == 1
    assert value(reservations, classification="pending", quantity="cpu") == 1.0, "cores"
    assert value(reservations, classification="pending", quantity="storage-beta2") == 2**32
    assert value("provider_inventory_allocatable_total", quantity="gpu") == 4, "units, not thousandths"
    assert value("provider_inventory_available_total", quantity="storage-beta2") == 7


def test_a_state_that_cannot_be_read_leaves_out_its_own_gauges_only() -> None:
    def broken() -> ProviderStatus:
        raise RuntimeError("no inventory yet")

    names = {name for name, _ in values(scrape(broken))}
    assert "provider_deployment_manager" not in names
    assert "lessor_chain_height" in names
    errors = ("provider_inventory_requests_total", frozenset({("action", "status"), ("result", "error")}))
    assert values(scrape())[errors] >= 1


def test_the_page_of_the_documents_names_every_metric() -> None:
    assert (DOCS / "metrics.md").read_text() == markdown(), "make docs"


@asynccontextmanager
async def listening() -> AsyncIterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    task = asyncio.create_task(serve_metrics(scrape(), address))
    try:
        while not await connects(address):
            await asyncio.sleep(0.01)
        yield address
    finally:
        task.cancel()
        await asyncio.wait([task])


async def connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


async def test_the_listener_serves_both_formats_and_nothing_else() -> None:
    async with listening() as address, aiohttp.ClientSession(f"http://{address}") as client:
        async with client.get("/metrics", headers={"Accept": OPEN_METRICS}) as answer:
            assert answer.content_type == "application/openmetrics-text"
            assert (await answer.text()).endswith("# EOF\n")
        async with client.get("/metrics") as answer:
            assert answer.content_type == "text/plain"
            assert any(family.name == "provider_deployment_manager" for family in classic(await answer.text()))
        statuses = []
        for method, path in (("GET", "/"), ("POST", "/metrics"), ("GET", "/metrics/../status")):
            async with client.request(method, path) as answer:
                statuses.append(answer.status)
        assert statuses == [404, 405, 404]


async def test_an_address_that_is_taken_is_named_with_the_remedy() -> None:
    async with listening() as address:
        with pytest.raises(SettingsError, match=f"AP_METRICS_LISTENER={address}: .*another address"):
            await serve_metrics(scrape(), address)


async def test_the_narration_counts_runs_and_changes_of_health(tmp_path: Path) -> None:
    def count(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, labels) or 0.0

    def counts() -> tuple[float, ...]:
        health = "provider_deployment_monitor_health_total"
        return (
            count("provider_deployment_total", action="teardown", result="fail"),
            count("provider_deployment_monitor_total", action="start"),
            count("provider_deployment_monitor_total", action="stop"),
            count(health, state="up"),
            count(health, state="down"),
            count("lessor_stack_seconds_count", operation="destroy"),
        )

    before, bus, database = counts(), MemoryBus(), MemoryDatabase(tmp_path / "x.db")
    lease = next(iter(LEASES))
    task = asyncio.create_task(narrate(bus, database, mask=lambda _, text: text))
    await asyncio.sleep(0)
    for phase in (Phase.RUNNING, Phase.DEGRADED, Phase.RUNNING, Phase.CLOSING, Phase.CLOSED):
        bus.publish(LEASE_STATE, LeaseStatus(lease, phase, "", 0.0))
    bus.publish(STACK_RESULT, StackReport(lease, StackResult(Operation.DESTROY, "x", ok=False, error="x", seconds=2.0)))
    while counts()[0] == before[0]:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await database.close()
    assert tuple(now - then for now, then in zip(counts(), before, strict=True)) == (1, 1, 1, 2, 1, 1)


async def test_the_gateway_serves_metrics_only_if_it_is_asked_to(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    async with world.running():
        assert (await world.send("GET", "/metrics")).status == 404

    async def metrics(accept: str) -> tuple[bytes, str]:
        return scrape().exposition(accept)

    world.metrics = metrics
    async with world.running():
        answer = await world.send("GET", "/metrics", headers=[("Accept", OPEN_METRICS)])
        assert answer.status == 200 and answer.text.endswith("# EOF\n")
