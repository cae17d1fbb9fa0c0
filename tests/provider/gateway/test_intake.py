"""Manifests: what is accepted is written before it is answered; what is refused changes nothing anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lease.ids import auto_hostname, namespace_name
from lease.manifest_decode import manifest_from_json
from lease.manifest_json import manifest_version
from lease.spec import GpuPlacement
from provider.bus import MANIFEST_ACCEPTED
from provider.errors import ClusterError
from provider.gateway import intake
from provider.gateway.config import Limits
from provider.kube.labels import managed_labels
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import (
    GRPC_ROUTE,
    HTTP_ROUTE,
    INGRESS,
    INGRESS_ROUTE,
    INGRESS_ROUTE_TCP,
    MANIFEST,
    PROVIDER_HOST,
    TLS_ROUTES,
    Kind,
)
from provider.records.accepted import MANIFEST_STORED, AcceptedManifest
from provider.records.manifests import ManifestRecord, read_manifest
from tests.provider.gateway.accounts import NOW, Account
from tests.provider.gateway.manifests import DSEQ, TENANT, body, deployment, lease, rent, service
from tests.provider.gateway.world import Answer, World, chain_is_away, cluster_fails, new_world, place, rented
from tests.world.chain import FakeChain
from tests.world.patience import eventually

OTHER = Account.named("other")


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path)
    world.clock.set(NOW)
    async with world.running():
        yield world


async def put(world: World, data: bytes, *, dseq: int = DSEQ, account: Account = TENANT) -> Answer:
    world.chain.public_keys[account.address] = account.public
    return await world.put_manifest(dseq, data, account.token())


def stored(world: World, *leases: Any) -> list[Any]:
    return [
        read_manifest(found)
        for item in leases
        if (found := world.cluster.find(MANIFEST, namespace_name(item), "lease"))
    ]


async def test_an_accepted_manifest_is_in_the_cluster_and_announced_when_200_is_read(world: World) -> None:
    data = body(env=["A=b"])
    rent(world, data, lease())
    answer = await put(world, data)
    assert (answer.status, answer.body, answer.header("Content-Type")) == (200, b"", None)
    (record,) = stored(world, lease())
    assert record.lease == lease()
    assert record.group.services[0].env == ("A=b",)
    assert world.bus.on(MANIFEST_ACCEPTED) == [lease()]
    (kept,) = world.bus.on(MANIFEST_STORED)
    assert kept == AcceptedManifest(
        lease(), NOW, manifest_version(manifest_from_json(data)).hex(), record.content_hash(), len(data), services=1
    )


class TwoManifests:
    """The check of the second deployment's manifest ends when `go_on` is set."""

    def __init__(self, world: World) -> None:
        self.world, self.data, self.second, self.go_on = world, body(), lease(dseq=DSEQ + 1), asyncio.Event()
        for each in (lease(), self.second):
            rented(world.chain, deployment(self.data, dseq=each.dseq), each)
        self.build, world.build = world.build, self._build

    async def _build(self, record: ManifestRecord) -> str:
        if record.lease == self.second:
            await self.go_on.wait()
        return await self.build(record)

    @asynccontextmanager
    async def first_accepted(self) -> AsyncIterator[asyncio.Task[Answer]]:
        """The first manifest is answered with 200, and the second one is being checked."""
        async with self.world.running():
            waiting = asyncio.create_task(put(self.world, self.data, dseq=self.second.dseq))
            await eventually(lambda: self.world.intake._accepting == 1)
            assert (await put(self.world, self.data)).status == 200
            assert stored(self.world, lease())
            yield waiting
            self.go_on.set()
            assert (await waiting).status == 200


@pytest.fixture
def two(tmp_path: Path) -> TwoManifests:
    world = new_world(tmp_path)
    world.clock.set(NOW)
    return TwoManifests(world)


async def test_manifests_sent_together_are_all_answered_before_the_first_is_applied(
    two: TwoManifests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_ANNOUNCED_S", 3600.0)
    async with two.first_accepted():
        assert two.world.bus.on(MANIFEST_ACCEPTED) == two.world.bus.on(MANIFEST_STORED) == []
    assert two.world.bus.on(MANIFEST_ACCEPTED) == [lease(), two.second]
    kept = two.world.bus.on(MANIFEST_STORED)
    assert [each.lease for each in kept if isinstance(each, AcceptedManifest)] == [lease(), two.second]


async def test_a_manifest_that_is_checked_for_long_does_not_hold_up_the_accepted_ones(
    two: TwoManifests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_ANNOUNCED_S", 0.01)
    async with two.first_accepted() as waiting:
        await eventually(lambda: two.world.bus.on(MANIFEST_ACCEPTED) == [lease()])
        assert not waiting.done()


async def test_the_same_manifest_twice_changes_no_object_and_is_announced_again(world: World) -> None:
    data = body()
    rent(world, data, lease())
    versions = []
    for _ in range(2):
        assert (await put(world, data)).status == 200
        versions += [record.resource_version for record in stored(world, lease())]
    assert versions[0] == versions[1] != ""
    assert len(world.cluster.applied) == 2
    assert world.cluster.applied[0] == world.cluster.applied[1]


async def test_manifests_that_are_checked_at_one_time_share_the_lists_of_hostnames(world: World) -> None:
    data, listed = body(hosts=["www.example.org"]), []
    for dseq in range(1, 21):
        rented(world.chain, deployment(data, dseq=dseq), lease(dseq=dseq))
    world.cluster.before = lambda operation, kind, name: listed.append(kind) if operation == "list" else None
    sent = (world.intake.accept_manifest(TENANT.address, dseq, data) for dseq in range(1, 21))
    await asyncio.gather(*sent)
    assert [listed.count(kind) for kind in ("ProviderHost", "Ingress", "HTTPRoute")] == [1, 1, 1]
    await world.intake.accept_manifest(TENANT.address, 1, data)
    assert listed.count("ProviderHost") == 2, "nothing is kept"


async def test_every_leased_group_gets_its_own_object_and_the_others_none(world: World) -> None:
    data = body("east", "north", "west")
    rent(world, data, lease(gseq=1), lease(gseq=3, oseq=2))
    assert (await put(world, data)).status == 200
    assert [record.group.name for record in stored(world, lease(gseq=1), lease(gseq=3, oseq=2))] == ["east", "west"]
    assert len(world.cluster.named(MANIFEST)) == 2


async def test_a_lease_of_a_group_that_the_deployment_does_not_have_is_refused_and_nothing_is_stored(
    world: World,
) -> None:
    rent(world, body(), lease(gseq=2))
    answer = await put(world, body())
    assert answer.status == 404
    assert b"the deployment has no group 2, which the lease names" in answer.body
    assert world.cluster.applied == []


async def test_a_lease_that_is_being_reclaimed_still_takes_manifests(world: World) -> None:
    rent(world, body(), lease(), state=LeaseState.RECLAIMING)
    assert (await put(world, body())).status == 200


async def test_the_newest_manifest_replaces_the_older_one(world: World) -> None:
    rent(world, body(), lease())
    assert (await put(world, body())).status == 200
    newer = body(image="nginx:1.28")
    rent(world, newer)
    assert (await put(world, newer)).status == 200
    assert [record.group.services[0].image for record in stored(world, lease())] == ["nginx:1.28"]


def gpu_body() -> bytes:
    attributes = [{"key": "vendor/nvidia/model/*", "value": "true"}]
    gpu = {"units": {"val": "1"}, "attributes": attributes}
    return body(resources=service()["resources"] | {"gpu": gpu})


async def test_the_reserved_gpu_is_recorded_and_outlives_a_lost_reservation(world: World) -> None:
    card = GpuPlacement(vendor="nvidia", model="a100")
    world.placements[lease()] = {1: card, 2: None}
    rent(world, gpu_body(), lease())
    for _ in range(2):
        assert (await put(world, gpu_body())).status == 200
        assert [record.placements for record in stored(world, lease())] == [{1: card}]
        world.placements.clear()


def _plain(world: World) -> bytes:
    rent(world, body(), lease())
    return body()


def _other_hash(world: World) -> bytes:
    rent(world, body(), lease(), hash_=bytes(32))
    return body()


def _no_lease(world: World) -> bytes:
    rent(world, body())
    return body()


def _ended_lease(world: World) -> bytes:
    rent(world, body(), lease(), state=LeaseState.INSUFFICIENT_FUNDS)
    return body()


def _other_provider(world: World) -> bytes:
    rent(world, body(), replace(lease(), provider=OTHER.address))
    return body()


def _blocked(world: World) -> bytes:
    data = body(hosts=["a.blocked.example.org"])
    rent(world, data, lease())
    return data


def _taken(world: World) -> bytes:
    spec = {"hostname": "Www.example.org", "service_name": "web"}
    labels = managed_labels(replace(lease(), owner=OTHER.address))
    place(world.cluster, PROVIDER_HOST, "www.example.org", namespace="lease", labels=labels, spec=spec)
    data = body(hosts=["www.example.org"])
    rent(world, data, lease())
    return data


def _other_groups(world: World) -> bytes:
    data = body()
    rent(world, data, lease())
    (found,) = world.chain.deployments.values()
    world.chain.deployments[found.id] = replace(found, groups=(replace(found.groups[0], name="dd"),))
    return data


def _less_rented(world: World) -> bytes:
    data = body(count=2)
    rent(world, data, lease())
    (found,) = world.chain.deployments.values()
    units = (replace(found.groups[0].units[0], count=1),)
    world.chain.deployments[found.id] = replace(found, groups=(replace(found.groups[0], units=units),))
    return data


def _unsafe(world: World) -> bytes:
    options = {"maxBodySize": 1, "readTimeout": 1, "sendTimeout": 1, "nextTries": 1, "nextCases": ["500;evil"]}
    exposes = [service()["expose"][0] | {"httpOptions": options}]
    data = body(expose=exposes)
    rent(world, data, lease())
    return data


def _hosts(*names: str) -> Any:
    def prepare(world: World) -> bytes:
        data = body(hosts=list(names))
        rent(world, data, lease())
        return data

    return prepare


def _foreign(kind: Kind, spec: dict[str, Any], host: str) -> Any:
    def prepare(world: World) -> bytes:
        place(world.cluster, kind, "grafana", namespace="lease", labels={"app": "grafana"}, spec=spec)
        return _hosts(host)(world)

    return prepare


def _sent(data: bytes) -> Any:
    """These bytes, for a deployment with a lease."""

    def prepare(world: World) -> bytes:
        rent(world, body(), lease())
        return data

    return prepare


REFUSALS: dict[str, tuple[Any, int, str]] = {
    "nothing": (_sent(b""), 422, "EOF"),
    "not JSON": (_sent(b"hello"), 422, "invalid character 'h' looking for beginning of value"),
    "not UTF-8": (_sent(b'[{"name":"\xff"}]'), 422, "invalid manifest"),
    "nested 100000 deep": (_sent(b"[" * 40_000), 422, "exceeded max depth"),
    "more values than are read": (
        _sent(b'[{"services":[' + b"{}," * 340_000 + b"{}]}]"),
        422,
        "manifest of 680005 values; at most 50000 are read",
    ),
    "broken structure": (_sent(b"[]"), 422, "invalid manifest: manifest is empty"),
    "not JSON for a deployment that is not known": (lambda world: b"hello", 404, "Deployment not found"),
    "unknown deployment": (
        lambda world: body(),
        404,
        "rpc error: code = NotFound desc = Deployment not found: key not found",
    ),
    "other hash than on chain": (_other_hash, 422, "manifest version validation failed"),
    "other groups than on chain": (_other_groups, 422, "invalid manifest: unknown deployment group ('dc')"),
    "more than is rented": (
        _less_rented,
        422,
        'manifest cross-validation error: group "dc": service "web": over-utilized',
    ),
    "values that would end up in the edge's configuration": (
        _unsafe,
        422,
        'manifest rejected: service "web": http option',
    ),
    "no lease": (_no_lease, 404, "no lease for deployment"),
    "a lease that ended": (_ended_lease, 404, "no lease for deployment"),
    "a lease with another provider": (_other_provider, 404, "no lease for deployment"),
    "a blocked hostname": (
        _blocked,
        422,
        'hostname not allowed: domain "a.blocked.example.org" is blocked by this provider',
    ),
    "the provider's public hostname": (
        _hosts("provider.example.com"),
        422,
        'hostname not allowed: "provider.example.com" is blocked by this provider',
    ),
    "the ingress domain": (
        _hosts("ingress.example.com"),
        422,
        'hostname not allowed: domain "ingress.example.com" is blocked by this provider',
    ),
    "a name of the ingress domain's wildcard": (
        _hosts("shop.ingress.example.com"),
        422,
        'hostname not allowed: domain "shop.ingress.example.com" is blocked by this provider',
    ),
    "the automatic name of somebody else's lease": (
        _hosts(auto_hostname(replace(lease(), owner=OTHER.address, dseq=DSEQ + 1), "web", "ingress.example.com")),
        422,
        "is blocked by this provider",
    ),
    "localhost": (_hosts("localhost"), 422, 'hostname not allowed: "localhost" has one label only'),
    "a single label": (_hosts("kubernetes"), 422, 'hostname not allowed: "kubernetes" has one label only'),
    "a host of an operator's Ingress": (
        _foreign(INGRESS, {"rules": [{"host": "Grafana.example.org"}]}, "grafana.example.org"),
        422,
        'hostname not allowed: host "grafana.example.org" in use',
    ),
    "a name below an operator's wildcard": (
        _foreign(INGRESS, {"rules": [{"host": "*.tools.example.org"}]}, "wiki.tools.example.org"),
        422,
        'hostname not allowed: host "wiki.tools.example.org" in use',
    ),
    "a host of an operator's HTTPRoute": (
        _foreign(HTTP_ROUTE, {"hostnames": ["grafana.example.org"], "rules": [{}]}, "grafana.example.org"),
        422,
        'hostname not allowed: host "grafana.example.org" in use',
    ),
    "a host of an operator's GRPCRoute": (
        _foreign(GRPC_ROUTE, {"hostnames": ["api.example.org"], "rules": [{}]}, "api.example.org"),
        422,
        'hostname not allowed: host "api.example.org" in use',
    ),
    "a host of an operator's TLSRoute": (
        _foreign(TLS_ROUTES[0], {"hostnames": ["db.example.org"], "rules": [{}]}, "db.example.org"),
        422,
        'hostname not allowed: host "db.example.org" in use',
    ),
    "a host of an operator's IngressRoute": (
        _foreign(
            INGRESS_ROUTE,
            {"routes": [{"match": "Path(`/x`)"}, {"match": 'Host("a.example.org", `Vault.example.org`) && Path(`/`)'}]},
            "vault.example.org",
        ),
        422,
        'hostname not allowed: host "vault.example.org" in use',
    ),
    "a host of an operator's IngressRouteTCP": (
        _foreign(INGRESS_ROUTE_TCP, {"routes": [{"match": "HostSNI(`mail.example.org`)"}]}, "mail.example.org"),
        422,
        'hostname not allowed: host "mail.example.org" in use',
    ),
    "a hostname of somebody else": (_taken, 422, 'hostname not allowed: host "www.example.org" in use'),
}


@pytest.mark.parametrize(("prepare", "status", "text"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_has_its_text_and_changes_nothing(world: World, prepare: Any, status: int, text: str) -> None:
    data = prepare(world)
    before = dict(world.cluster.objects)
    answer = await put(world, data)
    assert answer.status == status
    assert text in answer.text
    assert answer.text.endswith("\n")
    assert (world.cluster.objects, world.cluster.applied, world.bus.published) == (before, [], [])


async def test_somebody_elses_deployment_is_as_unknown_as_one_that_never_was(world: World) -> None:
    data = _plain(world)
    theirs = await put(world, data, account=OTHER)
    never = await put(world, data, dseq=4242)
    assert (theirs.status, theirs.body) == (never.status, never.body)
    assert not world.cluster.applied


async def test_a_refused_update_leaves_the_accepted_manifest_as_it_is(world: World) -> None:
    assert (await put(world, _plain(world))).status == 200
    before = stored(world, lease())
    assert (await put(world, body(image="nginx:evil"))).status == 422
    assert stored(world, lease()) == before


async def test_without_static_hosts_an_http_service_must_name_its_host(tmp_path: Path) -> None:
    world = new_world(tmp_path, static_hosts=False)
    world.clock.set(NOW)
    async with world.running():
        answer = await put(world, _plain(world))
        assert (answer.status, answer.text) == (
            422,
            'manifest rejected: service "web" exposed on 80:TCP must have a hostname\n',
        )


async def test_a_lease_may_name_its_own_automatic_hostname(world: World) -> None:
    data = body(hosts=[auto_hostname(lease(), "web", "ingress.example.com")])
    rent(world, data, lease())
    assert (await put(world, data)).status == 200


async def test_a_name_below_the_ingress_domain_that_an_owner_held_before_the_upgrade_stays_usable(world: World) -> None:
    spec = {"hostname": "shop.ingress.example.com", "service_name": "web"}
    labels = managed_labels(lease())
    place(world.cluster, PROVIDER_HOST, "shop.ingress.example.com", namespace="lease", labels=labels, spec=spec)
    data = body(hosts=["shop.ingress.example.com"])
    rent(world, data, lease())
    assert (await put(world, data)).status == 200


async def test_routes_of_leases_and_hosts_of_tls_entries_take_no_hostname(world: World) -> None:
    spec = {"rules": [{"host": "www.example.org"}]}
    place(world.cluster, INGRESS, "www.example.org", namespace="lease", spec=spec)
    tls = {"rules": [{}], "tls": [{"hosts": ["*.example.org"]}]}
    place(world.cluster, INGRESS, "catch-all", namespace="lease", labels={}, spec=tls)
    data = body(hosts=["www.example.org"])
    rent(world, data, lease())
    assert (await put(world, data)).status == 200


async def test_the_owner_may_use_a_hostname_it_already_holds(world: World) -> None:
    spec = {"hostname": "www.example.org", "service_name": "old"}
    labels = managed_labels(replace(lease(), dseq=DSEQ + 7))
    place(world.cluster, PROVIDER_HOST, "www.example.org", namespace="lease", labels=labels, spec=spec)
    data = body(hosts=["www.example.org"])
    rent(world, data, lease())
    assert (await put(world, data)).status == 200


async def test_a_chain_that_does_not_answer_is_a_500_that_names_no_address(world: World) -> None:
    data = _plain(world)
    assert (await world.get("/lease/1/1/1/status", TENANT.token())).status == 404  # the key is known from now on
    chain_is_away(world.chain)
    answer = await world.put_manifest(DSEQ, data, TENANT.token())
    assert answer.status == 500
    assert "127.0.0.1" not in answer.text
    assert not world.cluster.applied


@pytest.mark.parametrize(("status", "ours"), [(0, 503), (404, 404), (500, 500), (403, 500)])
async def test_a_cluster_that_fails_is_not_answered_200(world: World, status: int, ours: int) -> None:
    data = _plain(world)
    cluster_fails(world.cluster, status)
    answer = await put(world, data)
    assert answer.status == ours
    assert "127.0.0.1" not in answer.text
    assert not world.bus.published


async def test_one_deployment_is_served_one_manifest_at_a_time(world: World) -> None:
    data = _plain(world)
    stalled = world.chain.gates["deployment"] = asyncio.Event()
    answers = [asyncio.create_task(put(world, data)) for _ in range(3)]
    await eventually(lambda: "deployment" in world.chain.calls)
    assert not any(task.done() for task in answers)
    (deployment,) = world.chain.deployments
    assert deployment in world.intake._locks
    assert world.chain.calls.count("deployment") == 1
    stalled.set()
    assert [answer.status for answer in await asyncio.gather(*answers)] == [200, 200, 200]
    assert deployment not in world.intake._locks


async def test_a_deployment_that_waits_does_not_hold_up_another(world: World) -> None:
    data = _plain(world)
    stalled = world.chain.gates["deployment"] = asyncio.Event()
    waiting = asyncio.create_task(put(world, data))
    await eventually(lambda: "deployment" in world.chain.calls)
    del world.chain.gates["deployment"]
    assert (await put(world, data, dseq=77)).status == 404
    assert not waiting.done()
    stalled.set()
    assert (await waiting).status == 200


async def test_a_manifest_that_takes_too_long_ends_with_the_recorded_text(tmp_path: Path) -> None:
    world = new_world(tmp_path, limits=Limits(manifest_seconds=0.1))
    world.clock.set(NOW)
    async with world.running():
        data = _plain(world)
        world.chain.gates["deployment"] = asyncio.Event()
        answer = await put(world, data)
        assert (answer.status, answer.text) == (500, "context deadline exceeded\n")
        assert not world.cluster.applied


async def test_a_body_above_the_limit_is_413_with_and_without_a_content_length(tmp_path: Path) -> None:
    world = new_world(tmp_path, limits=Limits(manifest_bytes=2000))
    world.clock.set(NOW)
    async with world.running():
        _plain(world)
        assert (await put(world, b" " * 2001)).status == 413
        chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        head = f"PUT /deployment/{DSEQ}/manifest HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {TENANT.token()}\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await world.raw(head.encode() + chunk * 3 + b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert not world.cluster.applied


async def test_a_client_that_expects_100_continue_gets_it(world: World) -> None:
    data = _plain(world)
    reader, writer = await world.connect()
    head = f"PUT /deployment/{DSEQ}/manifest HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
    head += f"Authorization: Bearer {TENANT.token()}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(data)
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_body_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    world = new_world(tmp_path, limits=Limits(body_seconds=0.2))
    world.clock.set(NOW)
    async with world.running():
        _plain(world)
        head = f"PUT /deployment/{DSEQ}/manifest HTTP/1.1\r\nHost: x\r\n"
        head += f"Authorization: Bearer {TENANT.token()}\r\nContent-Length: 100\r\n\r\n[{{"
        assert (await world.raw(head.encode())).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "document", [None, 1, "x", {}, [[]], [{"services": 1}], [{"services": [{"expose": {}}]}]], ids=str
)
async def test_json_of_the_wrong_shape_is_the_tenants_mistake(world: World, document: Any) -> None:
    _plain(world)
    assert (await put(world, json.dumps(document).encode())).status == 422
    assert not world.cluster.applied


async def test_a_body_is_read_for_a_deployment_with_a_lease_only(tmp_path: Path) -> None:
    """Of an account without one not a byte is decoded, and the client for bids and leases is not asked."""
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.strangers, world.is_tenant = FakeChain(), lambda _: False
    world.strangers.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        head = f"PUT /deployment/{DSEQ}/manifest HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
        answer = await world.raw(f"{head}Authorization: Bearer {TENANT.token()}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert world.chain.calls == []
        for _ in range(60):
            await world.put_manifest(DSEQ, b"[]", TENANT.token())
    assert world.strangers.calls.count("leases") == 20


async def test_a_tenant_whose_lease_this_provider_does_not_know_yet_is_served(tmp_path: Path) -> None:
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.is_tenant = lambda _: False
    async with world.running():
        data = body()
        rent(world, data, lease())
        assert (await put(world, data)).status == 200


async def test_a_wildcard_is_an_invalid_hostname_unless_the_operator_allows_wildcards(tmp_path: Path) -> None:
    """The text is the Go provider's."""
    for allowed, status, text in (
        (False, 422, 'invalid manifest: service "web": has invalid hostname "*.shop.example.org"'),
        (True, 200, ""),
    ):
        world = new_world(tmp_path)
        world.clock.set(NOW)
        world.configure(hostnames=replace(world.config.hostnames, wildcards=allowed))
        async with world.running():
            answer = await put(world, _hosts("*.shop.example.org")(world))
            assert (answer.status, answer.text.strip()) == (status, text)
            assert bool(stored(world, lease())) is allowed


@pytest.mark.parametrize("host", ["*.com", "*", "a.*.shop.example.org", "*.ingress.example.com", "*.example.com"])
async def test_a_hostile_wildcard_is_refused_where_wildcards_are_allowed(tmp_path: Path, host: str) -> None:
    """The last two would serve the provider's own names."""
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.configure(hostnames=replace(world.config.hostnames, wildcards=True))
    async with world.running():
        assert (await put(world, _hosts(host)(world))).status == 422
        assert not world.cluster.applied


@pytest.mark.parametrize("status", [0, 409, 429, 502, 503, 504])
@pytest.mark.parametrize("failing", ["list", "apply"])
async def test_an_api_server_that_does_not_take_a_manifest_at_the_moment_is_503_and_the_next_try_is_accepted(
    world: World, failing: str, status: int
) -> None:
    data = body(hosts=["www.example.org"])
    rent(world, data, lease())

    def fail(operation: str, kind: str, name: str) -> None:
        if operation == failing:
            raise ClusterError("https://192.0.2.1:6443", "too many requests", status=status)

    world.cluster.before = fail
    answer = await put(world, data)
    assert (answer.status, answer.header("Retry-After")) == (503, "2") and "192.0.2.1" not in answer.text
    assert not stored(world, lease()) and world.bus.published == []
    world.cluster.before = lambda *_: None
    assert (await put(world, data)).status == 200


async def test_a_refusal_of_one_of_two_leases_is_503_and_the_same_manifest_again_completes_it(world: World) -> None:
    data, second = body(), lease(oseq=2)
    rent(world, data, lease(), second)
    applied: list[str] = []

    def fail(operation: str, kind: str, name: str) -> None:
        if operation == "apply":
            applied.append(name)
            if len(applied) == 2:
                raise ClusterError("https://192.0.2.1:6443", "too many requests", status=429)

    world.cluster.before = fail
    assert (await put(world, data)).status == 503
    assert (await put(world, data)).status == 200
    assert len(stored(world, lease(), second)) == 2
