"""`lessor inventory`, `address list` and `hostname list` beside a running provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
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
from provider.store import open_database
from provider.store.claims import Claim, ClaimKind, note_claims, open_claims
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
    database: Any = None

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
            database=self.database,
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
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
    made = Provider(tmp_path, FakeCluster("lease"), database=database)
    async with serving(made):
        yield made
    await database.close()


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


HOST = Claim(ClaimKind.HOSTNAME, "web.example.com", "", LEASE, "web:80")
ADDRESS = Claim(ClaimKind.ADDRESS, "203.0.113.7", "8080/TCP", LEASE, "web:80")
BEFORE = LeaseId("akash1other", 5, 1, 1, "akash1us")


async def test_a_hostname_and_an_address_have_since_when_and_the_object_that_holds_the_claim(
    provider: Provider,
) -> None:
    await claim(provider.cluster)
    await note_claims(provider.database, [(HOST, 1_700_000_000.0), (ADDRESS, 1_700_000_060.0)], [])
    done = await provider.lessor("hostname", "list")
    assert [line.split()[5] for line in done.stdout.splitlines()[1:]] == ["-", "2023-11-14T22:13:20Z"]
    other, web = json.loads((await provider.lessor("hostname", "list", "--json")).stdout)["hostnames"]
    assert (other["since"], web["since"]) == (None, "2023-11-14T22:13:20Z")
    assert web["object"] == "ProviderHost web.example.com"
    (address,) = json.loads((await provider.lessor("address", "list", "--json")).stdout)["addresses"]
    assert address["since"] == "2023-11-14T22:14:20Z" and address["object"].startswith("ProviderLeasedIP ")


@pytest.mark.parametrize(
    ("kind", "name", "held"), [("hostname", "Web.Example.com", HOST), ("address", "203.0.113.7", ADDRESS)]
)
async def test_who_had_a_name_before_is_listed_without_the_cluster(
    provider: Provider, kind: str, name: str, held: Claim
) -> None:
    old = replace(held, lease=BEFORE)
    await note_claims(provider.database, [(old, 1_600_000_000.0)], [])
    (row,) = (await open_claims(provider.database)).values()
    await note_claims(provider.database, [(held, 1_700_000_000.0)], [(row, 1_650_000_000.0)])
    done = await provider.lessor(kind, "history", name)
    now, before = (line.split() for line in done.stdout.splitlines()[1:])
    assert now[:4] == ["2023-11-14T22:13:20Z", "now", "8/1/1", "akash1tenant"]
    assert before[:4] == ["2020-09-13T12:26:40Z", "2022-04-15T05:20:00Z", "5/1/1", "akash1other"]
    newest, oldest = json.loads((await provider.lessor(kind, "history", name, "--json")).stdout)
    assert (newest["lease"], newest["until"], oldest["until"]) == (str(LEASE), None, "2022-04-15T05:20:00Z")
    assert len(json.loads((await provider.lessor(kind, "history", name, "--limit", "1", "--json")).stdout)) == 1


async def test_a_name_that_nobody_had_is_no_mistake(provider: Provider) -> None:
    done = await provider.lessor("hostname", "history", f"nobody.example.com{EVIL}")
    assert done.exit_code == FINE and "no lease is known to have had" in done.stdout and "\x1b" not in done.stdout


async def test_a_store_that_does_not_answer_hides_no_claim(provider: Provider) -> None:
    await claim(provider.cluster)
    await provider.database.close()
    (provider.home / "lessor.db").write_bytes(b"no database" * 1000)
    done = await provider.lessor("hostname", "list")
    assert done.exit_code == FINE and "web.example.com" in done.stdout, done.output


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
