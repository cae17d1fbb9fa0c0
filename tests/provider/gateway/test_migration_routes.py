"""The migration of hostnames and endpoints by the gateway, as the Go provider's was recorded (gateway.md §3.10)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim, host_object
from provider.claims.leased_ips import leased_ip_object, wanted_addresses
from provider.claims.moves import read_move
from provider.errors import ClusterError
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP
from provider.records.manifests import read_manifest
from tests.provider.gateway import recorded
from tests.provider.gateway.accounts import NOW, Account
from tests.provider.gateway.world import Answer, World, bearer, cluster_fails, new_world

FILE = "migrate"
HOSTS = "ProviderHost specs before and after hostname migration"
PORTS = "ProviderLeasedIP specs before and after endpoint migration"
TENANT = Account.named("migrations")


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The two recorded leases with their claims."""
    world = new_world(tmp_path)
    recorded.fill_chain(world)
    recorded.fill_cluster(world, addresses=False)
    world.cluster.remove((PROVIDER_LEASED_IP.api_version, "ProviderLeasedIP", "lease", "key-tcp-443"))
    world.cluster.remove((PROVIDER_HOST.api_version, "ProviderHost", "lease", "nohost.example.org"))
    owner = recorded.issuer(recorded.record("manifest", "accepted"))
    for name, spec in recorded.record(FILE, HOSTS)["before"].items():
        lease = recorded.lease_of(owner, spec["dseq"])
        host = HostnameClaim(name, lease, spec["service_name"], spec["external_port"])
        world.cluster.put(host_object(lease, host, namespace="lease"))
    main = read_manifest(await _manifest(world, recorded.MAIN))
    for claim in wanted_addresses(recorded.lease_of(owner, recorded.MAIN), main.group):
        world.cluster.put(leased_ip_object(claim, namespace="lease"))
        status = leased_ip_object(claim.at("203.0.113.10"), namespace="lease", status=True)
        world.cluster.put(status, status=True)
    async with world.running():
        yield world


async def _manifest(world: World, dseq: int) -> dict[str, Any]:
    found = await world.cluster.list(MANIFEST, labels={"akash.network/lease.id.dseq": str(dseq)})
    return found[0]


async def replay(world: World, row: recorded.Record) -> Answer:
    world.clock.set(recorded.moment(row))
    headers = [(key, value) for key, value in row["request"]["headers"] if key.lower() != "connection"]
    return await world.send(
        row["request"]["method"], row["request"]["path"], headers=headers, body=recorded.request_body(row)
    )


def _replayed() -> list[recorded.Record]:
    rows = [row for row in recorded.records(FILE) if row.get("request")]
    return [row for row in rows if row["request"]["method"] == "POST" and not row["request"]["client_certificate"]]


async def test_every_recorded_migration_is_answered_as_recorded(world: World) -> None:
    problems = []
    for row in _replayed():
        answer, response = await replay(world, row), row["response"]
        wanted = (response["status"], recorded.header(row, "Content-Type"), response["body"])
        if (answer.status, answer.header("Content-Type"), answer.text) != wanted:
            problems.append(f"{row['name']}: {answer.status} {answer.text!r}, recorded {wanted}")
    assert len(_replayed()) > 30 and not problems, "\n".join(problems)


async def test_the_claims_after_the_recorded_migrations_are_those_of_the_go_provider(world: World) -> None:
    for row in _replayed():
        await replay(world, row)
    for kind, name in ((PROVIDER_HOST, HOSTS), (PROVIDER_LEASED_IP, PORTS)):
        stored = {obj["metadata"]["name"]: obj["spec"] for obj in await world.cluster.list(kind)}
        assert stored == recorded.record(FILE, name)["after"]
    (port,) = await world.cluster.list(PROVIDER_LEASED_IP)
    assert port["status"]["address"] == "203.0.113.10" and read_move(port).sequence == 2


BODIES = [
    *[(b"", 422), (b"7", 422), (b"[" * 50_000, 422), (b"[]", 422), (b'{"hostnames_to_migrate":[1]}', 422)],
    *[(b"null", 400), (b"{}", 400), (b'{"hostnames_to_migrate":null}', 400)],
    *[(b"x" * 70_000, 413), (b'{"hostnames_to_migrate":["a"]}', 400)],
    (b'{"hostnames_to_migrate":["a"],"destination_dseq":18446744073709551616}', 422),
    (json.dumps({"hostnames_to_migrate": ["a"] * 5000}).encode(), 422),
]


@pytest.mark.parametrize(("data", "status"), BODIES, ids=lambda value: str(value)[:30])
async def test_a_body_that_is_no_request_changes_nothing(world: World, data: bytes, status: int) -> None:
    world.chain.public_keys[TENANT.address] = TENANT.public
    world.clock.set(NOW)
    writes = world.cluster.writes
    answer = await world.send("POST", "/hostname/migrate", headers=bearer(TENANT.token()), body=data)
    assert (answer.status, world.cluster.writes) == (status, writes)


@pytest.mark.parametrize("path", ["/hostname/migrate", "/endpoint/migrate"])
async def test_a_cluster_that_cannot_be_read_is_an_empty_500(world: World, path: str) -> None:
    row = recorded.record(FILE, "hostname: success" if path.startswith("/host") else "endpoint: success")
    cluster_fails(world.cluster, 500)
    answer = await replay(world, row)
    assert (answer.status, answer.body) == (500, b"")


@pytest.mark.parametrize("status", [0, 429, 503, 504])
@pytest.mark.parametrize("row", ["hostname: success", "endpoint: success"])
async def test_a_cluster_that_cannot_be_read_at_the_moment_is_503_with_retry_after(
    world: World, row: str, status: int
) -> None:
    cluster_fails(world.cluster, status)
    answer = await replay(world, recorded.record(FILE, row))
    assert (answer.status, answer.header("Retry-After")) == (503, "2")


@pytest.mark.parametrize(("row", "text"), [("hostname", "www.example.org"), ("endpoint", "not every port")])
async def test_a_claim_that_is_not_taken_at_the_moment_is_503_with_its_text(world: World, row: str, text: str) -> None:
    def fail(operation: str, kind: str, name: str) -> None:
        if operation == "apply":
            raise ClusterError("https://127.0.0.1:6443", "too many requests", status=429)

    world.cluster.before = fail
    answer = await replay(world, recorded.record(FILE, f"{row}: success"))
    assert (answer.status, answer.header("Retry-After")) == (503, "2") and text in answer.text
    world.cluster.before = lambda *_: None
    assert (await replay(world, recorded.record(FILE, f"{row}: success"))).status == 200


async def test_a_claim_that_cannot_be_written_names_the_hostname(world: World) -> None:
    def fail(operation: str, kind: str, name: str) -> None:
        if operation == "apply":
            raise ClusterError("https://127.0.0.1:6443", "no luck", status=500)

    world.cluster.before = fail
    answer = await replay(world, recorded.record(FILE, "hostname: success"))
    assert (answer.status, answer.text) == (
        500,
        'failed transferring "www.example.org": the cluster does not take the claim at the moment; '
        "send the request again\n",
    )


async def test_a_hostname_of_another_owner_is_refused(world: World) -> None:
    row = recorded.record(FILE, "hostname: success")
    other = LeaseId("akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", 1, 1, 1, world.config.provider)
    host = HostnameClaim("www.example.org", other, "web", 80)
    world.cluster.put(host_object(other, host, namespace="lease"))
    answer = await replay(world, row)
    assert (answer.status, answer.text) == (400, 'hostname not allowed: host "www.example.org" in use\n')


async def test_only_the_endpoints_that_are_named_migrate(world: World) -> None:
    """The Go provider declares every leased port of the destination again."""
    before = {obj["metadata"]["name"]: obj["spec"] for obj in await world.cluster.list(PROVIDER_LEASED_IP)}
    await replay(world, recorded.record(FILE, "endpoint: name not in destination"))
    assert {obj["metadata"]["name"]: obj["spec"] for obj in await world.cluster.list(PROVIDER_LEASED_IP)} == before


def _failing(world: World, failing: str, kind: str) -> None:
    """This operation on this kind fails from now on."""

    def fail(operation: str, found: str, name: str) -> None:
        if (operation, found) == (failing, kind):
            raise ClusterError("https://127.0.0.1:6443", "no luck", status=500)

    world.cluster.before = fail


async def test_claims_that_cannot_be_read_are_a_500_and_nothing_is_transferred(world: World) -> None:
    """The preparation of gateway.md §11 32."""
    writes = world.cluster.writes
    _failing(world, "list", PROVIDER_HOST.kind)
    answer = await replay(world, recorded.record(FILE, "hostname: success"))
    assert (answer.status, world.cluster.writes) == (500, writes)


async def test_an_endpoint_that_cannot_be_declared_is_a_500_with_a_text(world: World) -> None:
    """gateway.md §11 33."""
    _failing(world, "apply", PROVIDER_LEASED_IP.kind)
    answer = await replay(world, recorded.record(FILE, "endpoint: success"))
    assert answer.status == 500
    assert answer.text == "kube: internal error: not every port was transferred; send it again\n"


async def test_a_declared_endpoint_is_the_destinations_with_the_ports_of_its_manifest(world: World) -> None:
    await replay(world, recorded.record(FILE, "endpoint: success"))
    (claim,) = await world.cluster.list(PROVIDER_LEASED_IP)
    wanted = recorded.record(FILE, PORTS)["after"]
    assert {claim["metadata"]["name"]: claim["spec"]["port"]} == {name: each["port"] for name, each in wanted.items()}
