"""gRPC: which methods there are, who may call them, and what they answer (gateway.md §5)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from akash.manifest.v2beta3 import types_pb2 as manifest_pb
from akash.market.v1 import types_pb2 as market_pb
from akash.provider.lease.v1 import service_pb2 as lease_pb
from akash.provider.v1 import service_pb2 as provider_pb
from akash.provider.v1 import types_pb2 as status_pb
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from lease.ids import namespace_name
from lease.manifest import Manifest
from lease.manifest_decode import manifest_from_json
from lease.manifest_json import manifest_json
from provider.chain.codec import lease_id_to_pb, resources_to_pb
from provider.gateway.auth.claims import certificate_claims
from provider.gateway.errors import RequestError
from provider.gateway.grpc.lease_rpc import LeaseRpc
from provider.gateway.grpc.manifest_message import manifest_text
from provider.gateway.grpc.places import StreamPlaces
from provider.gateway.grpc.provider_rpc import ProviderRpc
from provider.gateway.grpc.status_message import quantity, status_message
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.gateway.refusals import Refusals
from provider.inventory.capacity import Card
from provider.protocols.cluster import MANIFEST, NAMESPACE
from tests.data import DATA
from tests.provider.gateway import recorded
from tests.provider.gateway.accounts import NOW, Account
from tests.provider.gateway.certificates import certified, publish
from tests.provider.gateway.grpc_world import GrpcWorld, bearer, grpc_world
from tests.provider.gateway.manifests import DSEQ, TENANT, body, lease, rent
from tests.provider.gateway.test_client_certificates import MAIN_OWNER
from tests.provider.gateway.world import new_world, place
from tests.world.patience import PATIENCE_S, eventually
from tests.world.pods import pod_object
from tests.world.virtual import VirtualClock

PROVIDER_RPC, LEASE_RPC = "akash.provider.v1.ProviderRPC", "akash.provider.lease.v1.LeaseRPC"
OTHER = Account.named("other")


@pytest.fixture
async def found(tmp_path: Path) -> AsyncIterator[GrpcWorld]:
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.chain.public_keys |= {account.address: account.public for account in (TENANT, OTHER)}
    recorded.fill_cluster(world, addresses=True)
    async with grpc_world(world) as running:
        yield running


# the provider

STATUS = recorded.record("grpc", f"/{PROVIDER_RPC}/GetStatus")


def number(text: Any, *, milli: bool = False) -> int:
    """The value of a recorded quantity."""
    raw, suffix = text.string.rstrip("mkMG"), text.string.lstrip("0123456789")
    factor = {"m": 1, "": 10**3, "k": 10**6, "M": 10**9, "G": 10**12}[suffix]
    return int(raw) * factor // (1 if milli else 1000)


def of_recording(message: Any) -> ProviderStatus:
    """The status that the recorded message says."""
    inventory = message.cluster.inventory
    reserved = {}
    for name in ("pending", "active"):
        row = getattr(inventory.reservations, name)
        total = Amounts(
            number(row.resources.cpu, milli=True),
            number(row.resources.gpu),
            number(row.resources.memory),
            number(row.resources.ephemeral_storage),
            {key: number(value) for key, value in row.resources.storage.items()},
        )
        reserved[name] = (total,) * min(1, row.count) + (Amounts(0, 0, 0, 0),) * max(0, row.count - 1)
    sizes = {row.info.ListFields()[0][1]: row.quantity for row in inventory.cluster.storage}
    addresses = inventory.leased_ip
    return ProviderStatus(
        leases=message.cluster.leases.active,
        orders=message.bid_engine.orders,
        deployments=message.manifest.deployments,
        **reserved,
        nodes=tuple(map(node_of, inventory.cluster.nodes)),
        pool_bytes={name: number(pair.allocatable) for name, pair in sizes.items()},
        storage_bytes={name: number(pair.allocatable) - number(pair.allocated) for name, pair in sizes.items()},
        addresses=number(addresses.capacity),
        free_addresses=number(addresses.capacity) - number(addresses.allocated),
    )


def node_of(node: Any) -> NodeAmounts:
    pairs = [node.resources.cpu.quantity, node.resources.gpu.quantity, node.resources.memory.quantity]
    pairs.append(node.resources.ephemeral_storage)
    most = [number(pair.allocatable, milli=index == 0) for index, pair in enumerate(pairs)]
    used = [number(pair.allocated, milli=index == 0) for index, pair in enumerate(pairs)]
    cards = tuple(Card(card.vendor, card.name, card.memory_size, card.interface) for card in node.resources.gpu.info)
    free = [all_ - taken for all_, taken in zip(most, used, strict=True)]
    classes = tuple(node.capabilities.storage_classes)
    return NodeAmounts(node.name, _amounts(most), _amounts(free), cards, classes)


def _amounts(numbers: list[int]) -> Amounts:
    cpu, gpu, memory, ephemeral = numbers
    return Amounts(cpu, gpu, memory, ephemeral)


def without_hardware_ids(message: Any) -> Any:
    """The recorded message without what labels of a node do not say, and with its storage sorted."""
    message.ClearField("timestamp")
    cluster = message.cluster.inventory.cluster
    for node in cluster.nodes:
        node.resources.cpu.ClearField("info")
        for card in node.resources.gpu.info:
            card.ClearField("vendor_id")
            card.ClearField("modelid")
    rows = sorted(cluster.storage, key=lambda row: row.info.ListFields()[0][1])
    del cluster.storage[:]
    cluster.storage.extend(rows)
    return message


def test_the_recorded_status_of_the_go_provider_is_made_from_the_same_facts() -> None:
    message = status_pb.Status.FromString(base64.b64decode(STATUS["response_base64"]))
    expected = without_hardware_ids(status_pb.Status.FromString(base64.b64decode(STATUS["response_base64"])))
    status = of_recording(message)
    made = status_message(status, public_hostname=message.public_hostnames[0], reclamation_window_ns=0, now=NOW)
    assert made.timestamp.seconds == NOW
    made.ClearField("timestamp")
    expected.ClearField("reclamation_window")
    assert made == expected


@pytest.mark.parametrize(
    ("amount", "milli", "text"),
    [(0, True, "0"), (1100, True, "1100m"), (8000, True, "8"), (1_000_000, True, "1k"), (0, False, "0"),
     (1000, False, "1k"), (1001, False, "1001"), (500 * 10**9, False, "500G"), (10**19, False, "10E")],
)  # fmt: skip
def test_quantities_are_in_canonical_form(amount: int, milli: bool, text: str) -> None:
    assert quantity(amount, milli=milli).string == text


def test_the_reclamation_window_is_a_duration_and_absent_when_unset() -> None:
    day = 86_400 * 10**9
    status = ProviderStatus()
    made = status_message(status, public_hostname="", reclamation_window_ns=day, now=NOW)
    assert made.reclamation_window.seconds == 86_400 and list(made.public_hostnames) == [""]
    assert not status_message(status, public_hostname="", reclamation_window_ns=0, now=NOW).HasField(
        "reclamation_window"
    )


async def test_anybody_reads_the_status_once_and_as_a_stream_whatever_the_credentials(found: GrpcWorld) -> None:
    found.world.status = ProviderStatus(leases=7)
    for token in ("", "x", TENANT.token()):
        answer = await found.call(f"{PROVIDER_RPC}/GetStatus", Empty(), status_pb.Status, token=token)
        first = await found.first(f"{PROVIDER_RPC}/StreamStatus", Empty(), status_pb.Status, token=token)
        assert answer.cluster.leases.active == first.cluster.leases.active == 7
        assert list(answer.public_hostnames) == [found.world.config.public_hostname]


class Peer:
    """The part of grpc's context that streams use."""

    def peer(self) -> str:
        return "unix-abstract:l1%7C%7C192.0.2.1"


def places(most: int = 4, of_one: int = 2) -> StreamPlaces:
    return StreamPlaces(most=most, of_one=of_one, reason="streams", refusals=Refusals())


@pytest.mark.virtual_time
async def test_the_status_is_streamed_every_five_seconds_and_the_place_is_given_back(tmp_path: Path) -> None:
    clock, free, asked = VirtualClock(NOW), places(), []

    async def status() -> ProviderStatus:
        asked.append(clock.now() - NOW)
        return ProviderStatus(leases=len(asked))

    rpc = ProviderRpc(status, new_world(tmp_path).config, clock=clock, places=free)
    stream = rpc.stream_status(Empty(), Peer())
    counts = [(await anext(stream)).cluster.leases.active for _ in range(3)]
    assert (counts, asked, free.taken) == ([1, 2, 3], [0, 5, 10], 1)
    await stream.aclose()
    assert free.taken == 0


def test_streams_are_limited_in_all_and_for_each_caller() -> None:
    free = places(most=3, of_one=2)
    with free.take("a"), free.take("a"):
        with pytest.raises(RequestError, match="too many streams"), free.take("a"):
            pass
        with free.take("b"), pytest.raises(RequestError, match="too many streams"), free.take("c"):
            pass
    with free.take("a"):
        assert free.taken == 1


class Tenant:
    """The part of `Callers` that a method asks: everybody is the tenant."""

    async def lease(self, *_: Any) -> Any:
        return lease(), certificate_claims(TENANT.address)


async def test_answers_with_logs_count_as_streams_of_the_tenant(found: GrpcWorld) -> None:
    free, world = places(of_one=1), found.world
    rpc: Any = LeaseRpc(
        Tenant(),  # type: ignore[arg-type]
        world.config,
        intake=world.intake,
        parts=world.gateway.stream_parts,
        places=free,
    )
    request = lease_pb.ServiceLogsRequest()
    with free.take(TENANT.address), pytest.raises(RequestError, match="too many streams"):
        await rpc.service_logs(request, None)
    with pytest.raises(RequestError, match="lease not found"):
        await rpc.service_logs(request, None)
    assert free.taken == 0


async def test_the_screening_is_known_by_its_older_name_too(found: GrpcWorld) -> None:
    request = provider_pb.BidScreeningRequest(group_spec={})
    for name in ("BidScreening", "ValidateGroupSpec"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await found.call(f"{PROVIDER_RPC}/{name}", request, provider_pb.BidScreeningResponse)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len(found.screened) == 2


# what there is


async def reflected(found: GrpcWorld, service: str, **request: str) -> Any:
    async with found.channel() as channel:
        called = channel.stream_stream(
            f"/{service}/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )
        stream = called(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=PATIENCE_S)
        return await stream.read()


async def test_reflection_lists_the_services_and_describes_them(found: GrpcWorld) -> None:
    answer = await reflected(found, "grpc.reflection.v1.ServerReflection", list_services="")
    services = [service.name for service in answer.list_services_response.service]
    theirs = recorded.record("grpc", "reflection v1 list_services")["services"]
    assert services == sorted({*theirs, LEASE_RPC, "grpc.health.v1.Health"})
    for name in (PROVIDER_RPC, LEASE_RPC):
        described = await reflected(found, "grpc.reflection.v1.ServerReflection", file_containing_symbol=name)
        assert described.file_descriptor_response.file_descriptor_proto
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reflected(found, "grpc.reflection.v1alpha.ServerReflection", list_services="")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED, "as recorded"


@pytest.mark.parametrize(
    "method",
    [f"{PROVIDER_RPC}/NoSuch", "akash.inventory.v1.ClusterRPC/QueryCluster", "akash.inventory.v1.NodeRPC/QueryNode"],
)
async def test_other_methods_are_unimplemented_as_recorded(found: GrpcWorld, method: str) -> None:
    assert recorded.record("grpc", f"/{method}")["status"] == "UNIMPLEMENTED"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found.call(method, Empty(), Empty)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_health_knows_the_services_that_are_served(found: GrpcWorld) -> None:
    answer = health_pb2.HealthCheckResponse
    for service in ("", PROVIDER_RPC, LEASE_RPC):
        request = health_pb2.HealthCheckRequest(service=service)
        assert (await found.call("grpc.health.v1.Health/Check", request, answer)).status == answer.SERVING
        assert (await found.first("grpc.health.v1.Health/Watch", request, answer)).status == answer.SERVING
    unknown = health_pb2.HealthCheckRequest(service="x")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found.call("grpc.health.v1.Health/Check", unknown, answer)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert (await found.first("grpc.health.v1.Health/Watch", unknown, answer)).status == answer.SERVICE_UNKNOWN


# the tenant


def granular(*services: str, scope: str, dseq: int = DSEQ) -> dict[str, Any]:
    entry = {"dseq": dseq, "scope": [scope], "services": list(services)}
    permission = {"provider": lease().provider, "access": "granular", "deployments": [entry]}
    return {"access": "granular", "permissions": [permission]}


def scoped(*scopes: str) -> dict[str, Any]:
    return {"access": "scoped", "scope": list(scopes)}


METHODS = {
    "SendManifest": (lease_pb.SendManifestRequest, lease_pb.SendManifestResponse, "send-manifest", "NOT_FOUND"),
    "ServiceStatus": (lease_pb.ServiceStatusRequest, lease_pb.ServiceStatusResponse, "status", "NOT_FOUND"),
    "AttestationQuote": (lease_pb.AttestationQuoteRequest, lease_pb.AttestationQuoteResponse, "attestation",
                         "UNIMPLEMENTED"),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
async def test_each_method_of_a_lease_needs_its_owner_and_its_scope(found: GrpcWorld, name: str) -> None:
    request_type, answer, scope, allowed = METHODS[name]
    named = lease_id_to_pb(lease())
    foreign = market_pb.LeaseID()
    foreign.CopyFrom(named)
    foreign.provider = OTHER.address
    cases = {
        "nobody": (named, "", "UNAUTHENTICATED"),
        "not a token": (named, "garbage", "UNAUTHENTICATED"),
        "another account": (named, OTHER.token(), "UNAUTHENTICATED"),
        "another provider": (foreign, TENANT.token(), "UNAUTHENTICATED"),
        "no lease at all": (market_pb.LeaseID(), TENANT.token(), "UNAUTHENTICATED"),
        "another scope": (named, TENANT.token(TENANT.claims(leases=scoped("events"))), "UNAUTHENTICATED"),
        "another deployment": (
            named,
            TENANT.token(TENANT.claims(leases=granular("web", scope=scope, dseq=7))),
            "UNAUTHENTICATED",
        ),
        "ended": (named, TENANT.token(TENANT.claims(exp=NOW - 1)), "INVALID_ARGUMENT"),
        "the owner": (named, TENANT.token(), allowed),
        "the scope": (named, TENANT.token(TENANT.claims(leases=scoped(scope))), allowed),
        "the deployment": (named, TENANT.token(TENANT.claims(leases=granular("web", scope=scope))), allowed),
    }
    codes = {}
    for case, (id_, token, _) in cases.items():
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await found.call(f"{LEASE_RPC}/{name}", request_type(lease_id=id_), answer, token=token)
        codes[case] = caught.value.code().name
    assert codes == {case: code for case, (_, _, code) in cases.items()}


async def test_a_quote_is_refused_with_the_text_of_gos_generated_code_to_a_tenant_and_to_nobody_else(
    found: GrpcWorld,
) -> None:
    request = lease_pb.AttestationQuoteRequest(lease_id=lease_id_to_pb(lease()), nonce="00" * 32, bind_tls=True)
    told = {}
    for caller, token in {"nobody": "", "another": OTHER.token(), "the tenant": TENANT.token()}.items():
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await found.call(f"{LEASE_RPC}/AttestationQuote", request, lease_pb.AttestationQuoteResponse, token=token)
        told[caller] = (caught.value.code().name, caught.value.details())
    assert told == {
        "nobody": ("UNAUTHENTICATED", "unauthorized access"),
        "another": ("UNAUTHENTICATED", "unauthorized access"),
        "the tenant": ("UNIMPLEMENTED", "method AttestationQuote not implemented"),
    }


async def test_a_client_certificate_is_as_good_as_a_token_and_both_at_once_are_refused(found: GrpcWorld) -> None:
    shown = certified(MAIN_OWNER, signs=True)
    publish(found.world.chain, MAIN_OWNER, shown)
    main = lease_id_to_pb(recorded.lease_of(MAIN_OWNER, recorded.MAIN))
    request = lease_pb.ServiceStatusRequest(lease_id=main)
    method, answer = f"{LEASE_RPC}/ServiceStatus", lease_pb.ServiceStatusResponse
    rows = (await found.call(method, request, answer, shown=shown)).services
    assert [row.name for row in rows] == ["db", "web"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found.call(method, request, answer, shown=shown, token=TENANT.token())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ambiguous authentication" in (caught.value.details() or "")
    async with found.channel() as channel:
        called = channel.unary_unary(f"/{method}", type(request).SerializeToString, answer.FromString)
        with pytest.raises(grpc.aio.AioRpcError) as twice:
            await called(request, metadata=bearer("a") + bearer("b"), timeout=PATIENCE_S)
    assert twice.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_status_of_services_is_that_of_rest(found: GrpcWorld, tmp_path: Path) -> None:
    shown = certified(MAIN_OWNER, signs=True)
    publish(found.world.chain, MAIN_OWNER, shown)
    row = next(
        row for row in recorded.records("lease") if row["request"]["path"] == f"/lease/{recorded.MAIN}/1/1/status"
        and row["response"]["status"] == 200 and '"IP"' in row["response"]["body"]
    )  # fmt: skip
    document = json.loads(row["response"]["body"])
    request = lease_pb.ServiceStatusRequest(lease_id=lease_id_to_pb(recorded.lease_of(MAIN_OWNER, recorded.MAIN)))
    answer = await found.call(f"{LEASE_RPC}/ServiceStatus", request, lease_pb.ServiceStatusResponse, shown=shown)
    for service in answer.services:
        theirs = document["services"][service.name]
        assert {key: getattr(service.status, key) for key in theirs if key not in ("name", "uris")} == {
            key: value for key, value in theirs.items() if key not in ("name", "uris")
        }
        assert list(service.status.uris) == (theirs["uris"] or [])
        ports = [(port.host, port.port, port.external_port, port.proto, port.name) for port in service.ports]
        assert ports == [tuple(port.values()) for port in document["forwarded_ports"].get(service.name, [])]
        ips = [(ip.port, ip.external_port, ip.protocol, ip.ip) for ip in service.ips]
        assert ips == [tuple(ip.values()) for ip in document["ips"].get(service.name, [])]
    request.services.append("db")
    chosen = await found.call(f"{LEASE_RPC}/ServiceStatus", request, lease_pb.ServiceStatusResponse, shown=shown)
    assert [service.name for service in chosen.services] == ["db"]


async def test_a_token_for_one_service_reads_no_other(found: GrpcWorld) -> None:
    rent(found.world, body(), lease())
    main = recorded.lease_of(MAIN_OWNER, recorded.MAIN)
    owner = Account(TENANT.secret)
    assert owner.address != main.owner
    token = TENANT.token(TENANT.claims(leases=granular("web", scope="status")))
    request = lease_pb.ServiceStatusRequest(lease_id=lease_id_to_pb(lease()), services=["db"])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found.call(f"{LEASE_RPC}/ServiceStatus", request, lease_pb.ServiceStatusResponse, token=token)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, "unauthorized access")


async def test_a_manifest_that_is_sent_is_accepted_as_on_rest(found: GrpcWorld) -> None:
    data = body()
    rent(found.world, data, lease())
    request = lease_pb.SendManifestRequest(lease_id=lease_id_to_pb(lease()), manifest=to_pb(manifest_from_json(data)))
    method = f"{LEASE_RPC}/SendManifest"
    await found.call(method, request, lease_pb.SendManifestResponse, token=TENANT.token())
    stored = found.world.cluster.find(MANIFEST, namespace_name(lease()), "lease")
    assert stored is not None and stored["spec"]["group"]["services"][0]["image"] == "nginx:1.27"
    request.manifest[0].services[0].image = "other"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await found.call(method, request, lease_pb.SendManifestResponse, token=TENANT.token())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "manifest version validation failed"


# messages


def to_pb(manifest: Manifest) -> list[Any]:
    """The messages that a tenant's client makes of a manifest."""
    return [
        manifest_pb.Group(name=group.name, services=[service_to_pb(service) for service in group.services or ()])
        for group in manifest
    ]


def service_to_pb(service: Any) -> Any:
    return manifest_pb.Service(
        name=service.name,
        image=service.image,
        command=service.command or (),
        args=service.args or (),
        env=service.env or (),
        resources=resources_to_pb(service.resources),
        count=service.count,
        expose=[expose_to_pb(expose) for expose in service.expose or ()],
        params=service.params and params_to_pb(service.params),
        credentials=service.credentials and credentials_to_pb(service.credentials),
    )


def expose_to_pb(expose: Any) -> Any:
    names = ("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout", "next_cases",
             "proxy_buffer_size")  # fmt: skip
    options = {name: getattr(expose.http_options, name) for name in names}
    return manifest_pb.ServiceExpose(
        port=expose.port,
        external_port=expose.external_port,
        proto=expose.proto,
        service=expose.service,
        hosts=expose.hosts or (),
        http_options=manifest_pb.ServiceExposeHTTPOptions(**options),
        ip=expose.ip,
        endpoint_sequence_number=expose.endpoint_sequence_number,
        **{"global": expose.global_},
    )


def params_to_pb(params: Any) -> Any:
    storage = [
        manifest_pb.StorageParams(name=one.name, mount=one.mount, read_only=one.read_only)
        for one in params.storage or ()
    ]
    permissions = params.permissions and manifest_pb.ServicePermissions(read=params.permissions.read or ())
    tee = params.tee and manifest_pb.TEEParams(type=params.tee.type, attestation=params.tee.attestation)
    credentials = params.credentials and credentials_to_pb(params.credentials)
    return manifest_pb.ServiceParams(storage=storage, permissions=permissions, tee=tee, credentials=credentials)


def credentials_to_pb(credentials: Any) -> Any:
    names = ("host", "email", "username", "password")
    return manifest_pb.ImageCredentials(**{name: getattr(credentials, name) for name in names})


def corpus() -> list[tuple[str, bytes]]:
    found = []
    for path in sorted(Path(DATA, "sdl").glob("*.expected.json")):
        manifest = json.loads(path.read_text()).get("manifest")
        if manifest:
            found.append((path.name, json.dumps(manifest).encode()))
    return found


def test_every_manifest_of_the_corpus_keeps_its_hash_over_grpc() -> None:
    changed = []
    for name, data in corpus():
        manifest = manifest_from_json(data)
        if manifest_text(to_pb(manifest)).decode() != manifest_json(manifest):
            changed.append(name)
    assert len(corpus()) > 100
    assert len(changed) <= 1, changed  # the one with empty lists that its SDL spelled out


# logs


def runs(found: GrpcWorld, **pods: str) -> None:
    """The tenant's lease with pods, by service; each has written two lines."""
    space = namespace_name(lease())
    place(found.world.cluster, NAMESPACE, space)
    for name, service in pods.items():
        pod = pod_object(space, name, service)
        found.world.cluster.put(pod)
        found.world.cluster.put(pod, status=True)
        found.world.pods.log_of(name).write(f"{name} 1".encode(), f"{name} 2".encode())


def logs_of(*services: str) -> Any:
    return lease_pb.ServiceLogsRequest(lease_id=lease_id_to_pb(lease()), services=services)


async def read_logs(found: GrpcWorld, *services: str, token: str = "") -> dict[str, bytes]:
    answer = await found.call(
        f"{LEASE_RPC}/ServiceLogs", logs_of(*services), lease_pb.ServiceLogsResponse, token=token or TENANT.token()
    )
    return {row.name: row.logs for row in answer.services}


async def test_the_last_lines_of_the_services_that_a_caller_names_and_may_read(found: GrpcWorld) -> None:
    runs(found, one="web", store="db")
    everything = {"web": b"one 1\none 2\n", "db": b"store 1\nstore 2\n"}
    assert await read_logs(found) == everything
    assert await read_logs(found, "db") == {"db": everything["db"]}
    limited = TENANT.token(TENANT.claims(leases=granular("web", scope="logs")))
    assert await read_logs(found, token=limited) == {"web": everything["web"]}
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read_logs(found, "db", token=limited)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_logs_of_no_lease_or_of_no_pods_are_not_found(found: GrpcWorld) -> None:
    for text in ("kube: lease not found", "no running pods"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_logs(found)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, text)
        place(found.world.cluster, NAMESPACE, namespace_name(lease()))


async def test_lines_that_are_added_follow_in_the_stream_and_its_end_closes_the_log(found: GrpcWorld) -> None:
    runs(found, one="web")
    async with found.channel() as channel:
        called = channel.unary_stream(
            f"/{LEASE_RPC}/StreamServiceLogs",
            lease_pb.ServiceLogsRequest.SerializeToString,
            lease_pb.ServiceLogsResponse.FromString,
        )
        stream = called(logs_of("web"), metadata=bearer(TENANT.token()), timeout=PATIENCE_S)
        seen = b""
        for count in (2, 3):
            while seen.count(b"\n") < count:
                message: Any = await stream.read()
                seen += message.services[0].logs
            found.world.pods.log_of("one").write(b"one more")
        assert seen == b"one 1\none 2\none more\n"
        stream.cancel()
        await eventually(lambda: found.world.pods.open == 0)


async def test_a_log_without_an_end_fills_no_memory_when_its_reader_takes_nothing(found: GrpcWorld) -> None:
    runs(found, one="web")
    given = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield b"2026-11-29T01:00:00.000000001Z " + b"x" * 1000 + b"\n"

    found.world.pods.endless["one"] = pieces
    async with found.channel() as channel:
        called = channel.unary_stream(
            f"/{LEASE_RPC}/StreamServiceLogs",
            lease_pb.ServiceLogsRequest.SerializeToString,
            lease_pb.ServiceLogsResponse.FromString,
        )
        stream = called(logs_of(), metadata=bearer(TENANT.token()), timeout=PATIENCE_S)
        await stream.read()
        before = -1
        while before != given:
            before = given
            await asyncio.sleep(0.3)
        assert given < 20_000, "20 MB would have been read ahead"
        stream.cancel()
