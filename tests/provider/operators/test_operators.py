"""The operators for hostnames and addresses: state, health checks, HTTP and gRPC (operators.md §1.4, §1.5, §3, §4)."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
from akash.lessor.v1 import operator_pb2
from google.protobuf.empty_pb2 import Empty

from lease.ids import namespace_name
from lease.manifest import Expose, Group
from provider.claims.moves import Move
from provider.operators.hostname.health import check_health
from provider.operators.hostname.operator import HostnameOperator
from provider.operators.hostname.resolver import SystemResolver
from provider.operators.ignore_list import IgnoreLimits, IgnoreList, go_time
from provider.operators.ip.operator import IpOperator
from provider.operators.prepared import PreparedBodies
from provider.protocols.cluster import IP_ADDRESS_POOL, PROVIDER_HOST, SERVICE
from provider.settings import Settings
from tests.provider.lifecycle.world import OTHER, PROVIDER, a_group, a_lease
from tests.provider.operators.around import (
    HOST,
    OPTIONS,
    OWN,
    VERSION,
    Answers,
    addresses,
    claim,
    get,
    hostnames,
    leased,
    manifest,
    running,
    settled,
)
from tests.world.cluster import FakeCluster
from tests.world.patience import PATIENCE_S
from tests.world.patience import eventually as until
from tests.world.virtual import VirtualClock

FIRST, SECOND = a_lease(1), a_lease(2)


# --- ignore list and prepared bodies ------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_lease_is_flagged_at_the_limit_of_errors(limit: int) -> None:
    """operators.md §10, 36."""
    ignored = IgnoreList(IgnoreLimits(failures=limit), VirtualClock())
    for _ in range(limit):
        assert not ignored.is_flagged(FIRST)
        ignored.add_error(FIRST, OSError("no"))
    assert ignored.is_flagged(FIRST)
    assert ignored.succeeded(FIRST) and not ignored.is_flagged(FIRST)


def test_the_list_is_pruned_to_its_limit_and_shows_every_lease() -> None:
    """operators.md §10, 35."""
    ignored = IgnoreList(IgnoreLimits(failures=1, entries=100), VirtualClock())
    for dseq in range(101, 1001):
        ignored.add_error(a_lease(dseq), LookupError("resource not found: manifest"), [f"{dseq}.example.com"])
    assert ignored.prune() and len(ignored) == 100 and len(ignored.document()) == 100
    assert not ignored.prune()
    entry = ignored.document()[str(a_lease(1000))]
    assert entry == {
        "hostnames": ["1000.example.com"],
        "last-error": "resource not found: manifest",
        "last-error-type": "LookupError",
        "failed-at": go_time(VirtualClock().now()),
        "failure-count": 1,
        "namespace": namespace_name(a_lease(1000)),
    }


def test_an_entry_expires_by_its_age() -> None:
    clock = VirtualClock()
    ignored = IgnoreList(IgnoreLimits(age_s=60), clock)
    ignored.add_error(FIRST, OSError("no"))
    assert not ignored.prune()
    clock.set(clock.now() + 61)
    assert ignored.prune() and len(ignored) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1704164645.000006, "2024-01-02 03:04:05.000006 +0000 UTC"), (1704164645.0, "2024-01-02 03:04:05 +0000 UTC")],
)
def test_times_have_gos_form(seconds: float, text: str) -> None:
    assert go_time(seconds) == text


def test_only_dirty_bodies_are_made_and_an_error_of_one_is_raised() -> None:
    """operators.md §10, 37 and 38."""
    made: list[int] = []
    bodies = PreparedBodies(VirtualClock())
    bodies.add("/one", lambda: made.append(1) or b"x" * 10_000_000)  # type: ignore[func-returns-value]
    bodies.prepare_all()
    assert made == [] and bodies.paths["/one"].body == b""
    bodies.mark("/one")
    bodies.prepare_all()
    bodies.prepare_all()
    assert made == [1] and len(bodies.paths["/one"].body) == 8_388_608
    with pytest.raises(ValueError, match="prepared result exists for path: /one"):
        bodies.add("/one", lambda: b"")
    with pytest.raises(ValueError, match="passed nil value for prepare function"):
        bodies.add("/two", None)
    bodies.add("/two", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    bodies.mark("/two")
    with pytest.raises(ZeroDivisionError):
        bodies.prepare_all()


# --- hostnames ----------------------------------------------------------------------------------


async def test_the_hostname_operator_serves_claims_whose_port_the_manifest_has() -> None:
    """operators.md §10, 48 to 52: among several exposes the global one of the claim's port."""
    cluster = FakeCluster()
    (service,) = a_group().services or ()
    exposes = (Expose(22, global_=True), Expose(80), Expose(3321, 41333, global_=True), Expose(53, proto="udp"))
    cluster.put(manifest(FIRST, Group("west", (replace(service, expose=exposes),))))
    cluster.put(claim(HOST, FIRST, port=41333))
    cluster.put(claim("b.example.com", SECOND))
    operator = hostnames(cluster)
    async with running(operator) as url:
        _, body, headers = await settled(f"{url}/managed-hostnames")
        assert headers["Cache-Control"] == "no-cache, max-age=0" and "Last-Modified" in headers and body.endswith("\n")
        assert list(json.loads(body)) == [HOST]
        entry = json.loads(body)[HOST]
        assert (entry["Namespace"], entry["ExternalPort"], entry["ServiceName"]) == (
            namespace_name(FIRST),
            41333,
            "web",
        )
        assert entry["LeaseID"] == {
            "owner": FIRST.owner, "dseq": 1, "gseq": 1, "oseq": 1, "provider": PROVIDER, "bseq": 0,
        }  # fmt: skip
        ignored = json.loads((await settled(f"{url}/ignore-list"))[1])
        assert ignored[str(SECOND)]["hostnames"] == ["b.example.com"]
        assert "resource not found: manifest" in ignored[str(SECOND)]["last-error"]
        cluster.put(manifest(SECOND, a_group()))  # row 23 of operators.md §8

        async def both() -> bool:
            return len(json.loads((await get(f"{url}/managed-hostnames"))[1])) == 2

        await until(both)
        assert len(operator.ignored) == 0
        assert (await get(f"{url}/health"))[:2] == (200, "OK")
        assert json.loads((await get(f"{url}/version"))[1]) == VERSION
        assert (await get(f"{url}/managed-hostnames", "POST"))[0] == 405
        assert (await get(f"{url}/nothing"))[0] == 404


def has_port(operator: HostnameOperator, port: int) -> bool:
    claim = operator.state.claims.get(HOST)
    return claim is not None and claim.external_port == port


async def test_a_flagged_lease_is_ignored_and_its_deletion_is_not() -> None:
    """operators.md §10, 47 and 50."""
    cluster = FakeCluster()
    operator = hostnames(cluster)
    async with running(operator):
        for port in range(80, 90):
            cluster.put(claim(HOST, FIRST, port=port))
            await until(partial(has_port, operator, port))
        assert operator.ignored.is_flagged(FIRST)
        assert operator.ignored.document()[str(FIRST)]["failure-count"] == 3
        cluster.remove((PROVIDER_HOST.api_version, "ProviderHost", "lease", HOST))
        await until(lambda: not operator.state.claims)


async def test_a_migrated_hostname_is_listed_with_its_new_lease() -> None:
    """operators.md §10, 53."""
    cluster = FakeCluster()
    for lease in (FIRST, SECOND):
        cluster.put(manifest(lease, a_group()))
    cluster.put(claim(HOST, FIRST))
    operator = hostnames(cluster)
    async with running(operator):
        await until(lambda: HOST in operator.state.managed)
        cluster.put(claim(HOST, SECOND, move=Move(2, FIRST)))
        await until(lambda: operator.state.managed[HOST].claim.lease == SECOND)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (Answers(OWN), ""),
        (Answers(), "the name does not resolve"),
        (Answers(OWN, "198.51.100.7"), "the name resolves to 198.51.100.7, which is no address of this provider"),
        (Answers(OWN, status=404), "the edge answers 404"),
        (Answers(OWN, status=500), ""),
        (
            Answers(OWN, certificate="mismatch"),
            "the edge's certificate is not valid for it: mismatch",
        ),
    ],
)
async def test_the_health_of_a_hostname(answers: Answers, message: str) -> None:
    health = await check_health(HOST, answers.checks())
    assert health.message == message and set(answers.asked) == {HOST}


async def test_names_whose_servers_are_silent_do_not_make_others_unresolvable() -> None:
    silence = threading.Event()

    def lookup(hostname: str) -> set[str]:
        if hostname != HOST:
            silence.wait(PATIENCE_S)
        return {OWN}

    resolve = SystemResolver(lookup, threads=2, seconds=0.05)
    for name in ("silent.example.com", "silent.example.org"):
        with pytest.raises(TimeoutError):
            await resolve(name)
    asked = asyncio.create_task(resolve(HOST))
    await asyncio.wait({asked}, timeout=0.2)
    silence.set()
    assert await asked == {OWN}


async def test_health_is_written_to_the_claim_once_and_again_when_it_changes() -> None:
    cluster, answers = FakeCluster(), Answers(OWN)
    cluster.put(claim(HOST, FIRST))
    operator = hostnames(cluster, answers)
    async with running(operator):
        await until(lambda: HOST in operator.state.claims)
        await operator.check_all()
        writes = cluster.writes
        await operator.check_all()
        assert cluster.writes == writes
        answers.status = 503
        await operator.check_all()
    stored = cluster.find(PROVIDER_HOST, HOST, "lease")
    assert stored is not None
    assert stored["status"] == {
        "state": "unhealthy",
        "message": "the edge answers 503",
        "sequence": 1,
        "checks": {"dns": "", "answer": "the edge answers 503", "certificate": ""},
    }


# --- addresses ----------------------------------------------------------------------------------


async def test_the_ip_operator_counts_distinct_addresses_and_those_of_other_pools() -> None:
    cluster = FakeCluster()
    pool = {"apiVersion": IP_ADDRESS_POOL.api_version, "kind": "IPAddressPool"}
    cluster.put(
        {
            **pool,
            "metadata": {"name": "office", "namespace": "metallb-system"},
            "spec": {"addresses": ["203.0.113.9-203.0.113.20"]},
        }
    )
    cluster.put(leased(FIRST))
    cluster.put(leased(SECOND, port=81))
    cluster.put(leased(a_lease(3, owner=OTHER), address="203.0.113.2"))
    async with running(addresses(cluster)) as url:

        async def counted() -> bool:
            status, body, _ = await get(f"{url}/usage")
            return status == 200 and json.loads(body) == {"Available": 8, "InUse": 2}

        await until(counted)
        state = json.loads((await get(f"{url}/state"))[1])
        (port,) = state[str(FIRST)]
        assert (port["port"], port["external-port"], port["service-name"]) == (8080, 80, "web")
        assert port["sharing-key"] == f"{FIRST.owner}-ip-meow" and port["namespace"] == namespace_name(FIRST)
        assert port["lease-id"]["dseq"] == 1 and port["last-event-time"].endswith(" +0000 UTC")


async def test_the_ip_operator_answers_503_until_it_knows_every_claim() -> None:
    operator = addresses(FakeCluster())
    operator.barrier.set = lambda is_open: None  # type: ignore[method-assign]
    async with running(operator) as url:
        for path in ("/health", "/usage", "/state", f"/ip-lease-status/{FIRST.owner}/1/1/1"):
            assert (await get(url + path))[0] == 503


async def test_the_status_of_a_lease_leaves_out_what_has_no_address_yet() -> None:
    """operators.md D7. One pending address fails the whole answer of the Go provider (§9 item 8)."""
    cluster = FakeCluster()
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_name(FIRST)}})
    async with running(addresses(cluster)) as url:
        base = f"{url}/ip-lease-status/{FIRST.owner}"
        await settled(f"{url}/health")
        assert (await get(f"{base}/abc/1/1"))[0] == 404
        assert (await get(f"{base}/1/1/1"))[0] == 204
        _balancer(cluster, "web-ip-80-tcp", 80, "")
        status, body, _ = await get(f"{base}/1/1/1")
        assert status == 500 and json.loads(body)["Code"] == -1
        _balancer(cluster, "web-ip-81-tcp", 81, "203.0.113.1")
        assert json.loads((await get(f"{base}/1/1/1"))[1]) == [
            {"Port": 8080, "ExternalPort": 81, "ServiceName": "web", "IP": "203.0.113.1", "Protocol": "TCP"}
        ]


def _balancer(cluster: FakeCluster, name: str, port: int, address: str) -> None:
    labels = {"akash.network": "true", "akash.network/service-target": "metal-lb"}
    service = {
        "apiVersion": SERVICE.api_version,
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace_name(FIRST), "labels": labels},
        "spec": {
            "selector": {"akash.network/manifest-service": "web"},
            "ports": [{"port": port, "targetPort": 8080, "protocol": "TCP"}],
        },
    }
    cluster.put(service)
    if address:
        cluster.put({**service, "status": {"loadBalancer": {"ingress": [{"ip": address}]}}}, status=True)


# --- gRPC ---------------------------------------------------------------------------------------


async def test_both_operators_serve_their_state_over_grpc_and_tell_each_change() -> None:
    cluster = FakeCluster()
    cluster.put(claim(HOST, FIRST, move=Move(2, SECOND)))
    cluster.put(leased(FIRST))
    operators: tuple[HostnameOperator | IpOperator, ...] = (hostnames(cluster), addresses(cluster))
    for operator, name in zip(operators, ("hostname", "ip"), strict=True):
        async with running(operator), grpc.aio.insecure_channel(f"127.0.0.1:{operator.ports[1]}") as channel:
            watch = _method(channel.unary_stream, "Watch", operator_pb2.State)(Empty())

            async def told(wanted: int, watch: Any = watch) -> operator_pb2.State:
                async for state in watch:
                    if len(state.claims) == wanted:
                        return state
                raise AssertionError("the stream has ended")

            state = await asyncio.wait_for(told(1), 30)
            assert state.operator == name and state.claims[0].lease == str(FIRST)
            if name == "hostname":
                assert (state.claims[0].sequence, state.claims[0].migrates_from) == (2, str(SECOND))
                cluster.put(claim("b.example.com", SECOND))
            else:
                assert state.claims[0].address == "203.0.113.1"
                cluster.put(leased(SECOND, port=81))
            await asyncio.wait_for(told(2), 30)
            found = await _method(channel.unary_unary, "GetState", operator_pb2.State)(Empty())
            assert len(found.claims) == 2
            ignored = await _method(channel.unary_unary, "ListIgnored", operator_pb2.IgnoredLeases)(Empty())
            assert len(ignored.leases) == (2 if name == "hostname" else 0)


def _method(kind: Any, name: str, answer: Any) -> Any:
    return kind(
        f"/lessor.operator.v1.Operator/{name}",
        request_serializer=Empty.SerializeToString,
        response_deserializer=answer.FromString,
    )


async def test_the_usage_counts_the_addresses_of_named_pools_that_no_service_outside_the_leases_has() -> None:
    cluster = FakeCluster()
    for name, network in (("public", "198.51.100.0/29"), ("private", "198.51.100.32/29")):
        meta = {"name": name, "namespace": "metallb-system"}
        pool = {"apiVersion": IP_ADDRESS_POOL.api_version, "kind": "IPAddressPool", "metadata": meta}
        cluster.put(pool | {"spec": {"addresses": [network]}})
    meta = {"name": "shop", "namespace": "lease"}
    spec = {"type": "LoadBalancer", "loadBalancerIP": "198.51.100.3"}
    cluster.put({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    settings = Settings(ip_pools=("public",))
    operator = IpOperator(settings, cluster, VirtualClock(), provider=PROVIDER, version=VERSION, options=OPTIONS)
    await operator.count()
    assert operator.state.usage() == {"Available": 6, "InUse": 0}
