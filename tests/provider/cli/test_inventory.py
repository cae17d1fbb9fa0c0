"""`lessor inventory`, `address list` and `hostname list` beside a running provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lease.exit_codes import FINDING, FINE, TROUBLE, UNAVAILABLE
from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim, host_object
from provider.claims.leased_ips import AddressClaim, leased_ip_object
from provider.cli import build_app
from provider.dashboard.questions import answer_view, serve_views
from provider.dashboard.views import Sources, Views
from provider.errors import ClusterError
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Inventory, Node, Snapshot
from provider.local_socket import serve_socket, views_socket
from tests.world.cluster import FakeCluster
from tests.world.patience import eventually

GI = 1 << 30
LEASE = LeaseId("akash1tenant", 8, 1, 1, "akash1us")
A100, T4 = Card("nvidia", "a100"), Card("nvidia", "t4")
EVIL = "\x1b[2Jevil"


def node(name: str, cpu: int, cards: tuple[Card, ...] = ()) -> Node:
    return Node(name, Capacity(cpu, 64 * GI, 32 * GI, 110), cards, ("beta2",))


@dataclass
class Provider:
    home: Path
    cluster: FakeCluster
    stale: str = ""

    def sources(self) -> Sources:
        nodes = (node("n1", 8000, (A100, A100, T4)), node("n2", 4000, (A100,)))
        whole = Inventory(nodes, pool_bytes={"beta2": 10 * GI}, address_count=3)
        free = Snapshot((node("n1", 2500, (A100,)), node("n2", 4000, (A100,))), {"beta2": 4 * GI}, free_addresses=2)
        nothing: Any = None
        return Sources(
            status=nothing,
            inventory=lambda: whole,
            free=lambda: free,
            stale=lambda: self.stale,
            policies=nothing,
            database=nothing,
            ring=nothing,
            cluster=self.cluster,  # type: ignore[arg-type]
            records="lease",
            bus=nothing,
            clock=nothing,
        )

    async def lessor(self, *arguments: str) -> Any:
        env = {"AP_HOME": str(self.home), "COLUMNS": "300"}
        return await asyncio.to_thread(lambda: CliRunner().invoke(build_app(), arguments, env=env))


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    made = Provider(tmp_path, FakeCluster("lease"))
    async with serving(made):
        yield made


@asynccontextmanager
async def serving(made: Provider) -> AsyncIterator[None]:
    task = asyncio.create_task(serve_views(made.sources(), made.home))
    await eventually(views_socket(made.home).exists)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def unreachable(cluster: FakeCluster) -> Iterator[None]:
    def fail(*_: str) -> None:
        raise ClusterError("https://fake", "connection refused")

    cluster.before = fail
    yield
    cluster.before = lambda *_: None


async def claim(cluster: FakeCluster) -> None:
    for name in ("web", "other"):
        host = host_object(LEASE, HostnameClaim(f"{name}.example.com", LEASE, "web", 80), namespace="lease")
        await cluster.apply(host)
        if name == "web":
            status = {"state": "unhealthy", "message": f"the edge answers 503 {EVIL}"}
            await cluster.apply({**host, "status": status}, status=True)
    address = AddressClaim(LEASE, "web", 80, 8080, "TCP", "key", "203.0.113.7")
    await cluster.apply(leased_ip_object(address, namespace="lease"))
    await cluster.apply(leased_ip_object(address, namespace="lease", status=True), status=True)


async def test_the_inventory_is_shown_by_node_by_card_and_by_storage_class(provider: Provider) -> None:
    done = await provider.lessor("inventory")
    assert done.exit_code == FINE, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "n1 2.5 of 8.0 64.0 of 64.0 32.0 of 32.0 beta2" in lines
    assert "nvidia a100 2 of 3 n1 1 of 2, n2 1 of 1" in lines
    assert "nvidia t4 0 of 1 n1 0 of 1" in lines
    assert "beta2 4.0 of 10.0" in lines


async def test_a_program_reads_the_same_as_json_and_yaml(provider: Provider) -> None:
    found = json.loads((await provider.lessor("inventory", "--json")).stdout)
    assert found["nodes"][0]["cpu"] == {"all": 8.0, "free": 2.5, "reserved": 5.5}
    assert found["cards"][0]["nodes"] == {"n1": {"all": 2, "free": 1}, "n2": {"all": 1, "free": 1}}
    assert found["storage"] == [{"class": "beta2", "all": 10 * GI, "free": 4 * GI, "reserved": 6 * GI}]
    assert yaml.safe_load((await provider.lessor("inventory", "--output", "yaml")).stdout) == found


async def test_a_picture_that_is_too_old_is_shown_with_the_reason(provider: Provider) -> None:
    provider.stale = "the API server has not answered for more than 60 s"
    done = await provider.lessor("inventory")
    assert done.exit_code == FINDING
    assert "n1" in done.stdout and "has not answered" in done.stderr


async def test_hostnames_have_their_lease_and_their_health(provider: Provider) -> None:
    await claim(provider.cluster)
    done = await provider.lessor("hostname", "list")
    assert done.exit_code == FINE, done.output
    other, web = done.stdout.splitlines()[1:]
    assert other.split()[:2] == ["other.example.com", "web:80"] and other.endswith("not checked")
    assert "8/1/1 of akash1tenant" in web and "unhealthy: the edge answers 503" in web and "\x1b" not in done.output
    found = json.loads((await provider.lessor("hostname", "list", "--json")).stdout)
    assert [each["health"] for each in found["hostnames"]] == ["", "unhealthy"]
    assert found["hostnames"][0]["lease_id"] == str(LEASE)


async def test_addresses_have_their_lease_and_how_many_are_free(provider: Provider) -> None:
    assert "no lease has an address" in (await provider.lessor("address", "list")).stdout
    await claim(provider.cluster)
    done = await provider.lessor("address", "list")
    assert "203.0.113.7 8080/TCP web:80 8/1/1 of akash1tenant" in " ".join(done.stdout.split())
    assert "2 of 3 addresses are free" in done.stdout
    found = yaml.safe_load((await provider.lessor("address", "list", "-o", "yaml")).stdout)
    assert (found["free"], found["all"], found["addresses"][0]["address"]) == (2, 3, "203.0.113.7")


@pytest.mark.parametrize("command", ["address", "hostname"])
async def test_a_cluster_that_does_not_answer_is_named_and_back_again(provider: Provider, command: str) -> None:
    with unreachable(provider.cluster):
        done = await provider.lessor(command, "list")
        assert done.exit_code == FINDING and "connection refused" in done.stderr
    assert (await provider.lessor(command, "list")).exit_code == FINE


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"7", b"null", b'{"view": 7}', b'{"view": []}', b"[" * 5000, b"\xff"]
)
async def test_no_request_raises(provider: Provider, line: bytes) -> None:
    assert (await answer_view(Views(provider.sources()), line))["ok"] is False


async def test_an_older_provider_does_not_know_the_request(tmp_path: Path) -> None:
    async def answer(_: bytes) -> dict[str, Any]:
        return {"ok": False, "text": "this provider does not know this request"}

    task = asyncio.create_task(serve_socket(views_socket(tmp_path), answer, longest=4096, seconds=5))
    await eventually(views_socket(tmp_path).exists)
    done = await Provider(tmp_path, FakeCluster()).lessor("inventory")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert done.exit_code == TROUBLE


async def test_without_a_provider_the_remedy_is_named(tmp_path: Path) -> None:
    done = await Provider(tmp_path, FakeCluster()).lessor("inventory")
    assert done.exit_code == UNAVAILABLE and "lessor run" in done.stderr
