"""`BidScreening` over a real listener, and the socket of `lessor bid explain --sdl`: the market's own answer (field
problem A10).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import grpc
import grpc.aio
import pytest
from akash.provider.v1 import service_pb2, service_pb2_grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from lease.groups import GroupSpec
from lease.ids import LeaseId
from lease.resources import Attribute
from lease.spec import HostnameSpec
from provider.chain import codec
from provider.claims.hostnames import HostnameRules, host_object
from provider.errors import ChainError, MarketError, ProviderUnreachable
from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.grpc.bid_screening import BidScreening, screened_hostnames
from provider.gateway.grpc.methods import provider_methods
from provider.gateway.grpc.server import GrpcServer, grpc_address
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.tls import ensure_certificate
from provider.gateway.verdict import screen_of
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Inventory, Node
from provider.market.bidding import consider
from provider.market.pricing.quote import PriceRequest, Quote
from provider.market.question_socket import answer, ask_market, serve_questions
from provider.market.screening import Screening
from provider.protocols.cluster import INGRESS
from provider.settings import Settings
from provider.store import open_database
from tests.provider.gateway.world import place
from tests.provider.market.world import ATTRIBUTES, GI, RECORD, RULES, US, World, make_order, make_spec, make_world
from tests.world.chain import FakeChain
from tests.world.cluster import FakeCluster, unreachable
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock

GPUS = (Card("nvidia", "a100", "24Gi", "pcie"),)


def inventory() -> Inventory:
    room = Capacity(4000, 64 * GI, 64 * GI, 110)
    return Inventory(nodes=(Node("node1", room), Node("node2", room, GPUS, ("beta2",))), pool_bytes={"beta2": GI})


@pytest.fixture
async def world(tmp_path: Path):
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/market.db")
    made = make_world(database, inventory=inventory())
    made.chain.providers[US] = replace(
        RECORD, attributes=(*ATTRIBUTES, Attribute("capabilities/gpu/vendor/nvidia/model/a100/ram/40Gi", "true"))
    )
    yield made
    await database.close()


@pytest.fixture
async def stub(world: World, tmp_path: Path):
    screen = screen_of(Screening(world.market))
    account = ensure_certificate(US, tmp_path, now=time.time(), hostname="localhost")
    server = GrpcServer(
        provider_methods(BidScreening(screen)),
        host="127.0.0.1",
        port=0,
        served=ServedCertificates(account),
        clients=ClientCertificates(FakeChain(), VirtualClock()),
    )
    await server.start()
    pem = account.certificate.public_bytes(Encoding.PEM)
    names = account.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    name = names.get_values_for_type(x509.DNSName)[0]
    channel = grpc.aio.secure_channel(
        f"127.0.0.1:{server.port}",
        grpc.ssl_channel_credentials(pem),
        options=[("grpc.ssl_target_name_override", name)],
    )
    yield service_pb2_grpc.ProviderRPCStub(channel)
    await channel.close()  # type: ignore[call-arg]
    await server.stop()


def request(spec: GroupSpec, **more: object):
    return service_pb2.BidScreeningRequest(group_spec=codec.group_to_pb(spec), **more)  # type: ignore[arg-type]


async def test_screening_answers_with_the_price_and_reserves_nothing(world: World, stub) -> None:
    free = world.ledger.free(world.inventory)
    told = await stub.BidScreening(request(make_spec(count=2)))
    assert told.passed
    assert (told.price.denom, told.price.amount) == ("uact", "20000000000000000000")
    assert [(offer.resources.id, offer.count) for offer in told.resource_offers] == [(1, 2)]
    assert world.ledger.free(world.inventory) is free
    assert world.chain.sent == []
    assert await world.decisions() == []


async def test_screening_answers_with_every_reason_and_names_no_node(stub) -> None:
    told = await stub.BidScreening(request(make_spec(gpus=("vendor/nvidia/model/a100/ram/40Gi",), price="1")))
    assert not told.passed
    assert list(told.reasons) == [
        "unit 1: 0 of 1 replicas fit on 2 nodes (too little gpu on 2)",
        "the bid price 10uact is above the order's maximum 1uact",
    ]
    assert not [reason for reason in told.reasons if "node1" in reason or "node2" in reason]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (service_pb2.BidScreeningRequest(), grpc.StatusCode.INVALID_ARGUMENT),
        (request(make_spec(), hostnames=["a.com"] * 101), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_an_invalid_screening_request_is_refused(stub, bad, code) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.BidScreening(bad)
    assert caught.value.code() is code


async def test_garbage_and_an_invalid_group_are_answered_and_the_next_one_is_served(stub) -> None:
    wrong = request(make_spec())
    wrong.group_spec.resources[0].resource.cpu.units.val = b"\xff much"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.BidScreening(wrong)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the group is not valid" in (await stub.BidScreening(request(make_spec(cpu=5)))).reasons[0]
    empty = await stub.BidScreening(service_pb2.BidScreeningRequest(group_spec={}))
    assert not empty.passed
    assert (await stub.BidScreening(request(make_spec()))).passed


async def test_other_methods_are_unimplemented(stub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetStatus({})
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


class Context:
    """The part of grpc's context that is used: `abort` raises. Each call comes from a peer of its own by default."""

    peers = itertools.count()

    def __init__(self, peer: str = "") -> None:
        self._peer = peer or f"ipv4:192.0.2.1:{next(self.peers)}"

    def peer(self) -> str:
        return self._peer

    async def abort(self, code: grpc.StatusCode, words: str) -> None:
        raise RuntimeError(f"{code.name} {words}")


async def test_too_many_requests_and_a_dead_chain_are_reported_without_internal_details() -> None:
    gate, running = asyncio.Event(), []

    async def slow(spec: GroupSpec):
        running.append(spec)
        await gate.wait()
        raise ChainError("http://10.0.0.1:26657", "refused")

    screening = BidScreening(slow)
    waiting = [asyncio.create_task(screening.answer(request(make_spec()), Context())) for _ in range(8)]
    await eventually(lambda: len(running) == 8)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED too many requests at once"):
        await screening.answer(request(make_spec()), Context())
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {str(one) for one in results} == {"UNAVAILABLE this provider cannot answer now; try again"}
    with pytest.raises(RuntimeError, match="UNAVAILABLE"):
        await screening.answer(request(make_spec()), Context())


async def test_one_peer_takes_half_of_the_turns_and_no_more_than_its_rate() -> None:
    gate, running, now = asyncio.Event(), [], [0.0]

    async def slow(spec: GroupSpec):
        running.append(spec)
        await gate.wait()
        raise MarketError("no")

    screening = BidScreening(slow, peer_of=lambda peer: peer.rpartition(":")[0], now=lambda: now[0])
    ask = lambda peer: asyncio.create_task(screening.answer(request(make_spec()), Context(peer)))  # noqa: E731
    waiting = [ask(f"ipv4:192.0.2.1:{port}") for port in range(6)]
    await eventually(lambda: sum(task.done() for task in waiting) == 2 and len(running) == 4)
    others = [ask("ipv4:192.0.2.2:1")]
    await eventually(lambda: len(running) == 5)
    gate.set()
    refused = await asyncio.gather(*waiting, *others, return_exceptions=True)
    assert sum("too many requests from this address" in str(one) for one in refused) == 2
    for _ in range(40):
        await asyncio.gather(ask("ipv4:192.0.2.1:9"), return_exceptions=True)
    assert len(running) == 5 + 30 - 4
    now[0] += 1.0
    for _ in range(3):
        await asyncio.gather(ask("ipv4:192.0.2.1:9"), return_exceptions=True)
    assert len(running) == 5 + 30 - 4 + 2


HELD = HostnameSpec.model_construct(hostname="held.example.com", service="web", external_port=80)  # type: ignore[call-arg]


def screening_names(cluster: FakeCluster, screen) -> BidScreening:
    rules = HostnameRules(
        ("blocked.example.com", ".blocked.example.org"), "provider.example.com", "in.example.com", True
    )
    return BidScreening(
        screen, hostnames=screened_hostnames(cluster, VirtualClock(0.0), namespace="lease", rules=rules)
    )


@pytest.mark.parametrize(
    ("hostnames", "reasons"),
    [
        ((), ()),
        (("free.example.com", "sub.blocked.example.com"), ()),
        (("HELD.example.com", "held.example.com"), ('hostname not allowed: host "held.example.com" in use',)),
        (("Blocked.example.com",), ('hostname not allowed: "blocked.example.com" is blocked by this provider',)),
        (
            ("free.example.com", "a.blocked.example.org", "held.example.com"),
            (
                'hostname not allowed: domain "a.blocked.example.org" is blocked by this provider',
                'hostname not allowed: host "held.example.com" in use',
            ),
        ),
        (("Provider.example.com",), ('hostname not allowed: "provider.example.com" is blocked by this provider',)),
        (("a.in.example.com",), ('hostname not allowed: domain "a.in.example.com" is blocked by this provider',)),
        (("localhost",), ('hostname not allowed: "localhost" has one label only, which no public DNS serves',)),
        (("grafana.example.com",), ('hostname not allowed: host "grafana.example.com" in use',)),
        (("no host",), ('invalid hostname "no host"',)),
        (("x" * 10_000,), ('invalid hostname "' + "x" * 382,)),
    ],
)
async def test_hostnames_that_a_manifest_could_not_use_are_refused_in_the_screening(
    world: World, hostnames, reasons
) -> None:
    cluster, screen = FakeCluster(), screen_of(Screening(world.market))
    cluster.put(host_object(LeaseId("akash1other", 1, 1, 1, US), HELD, namespace="lease"))
    place(cluster, INGRESS, "grafana", labels={}, spec={"rules": [{"host": "grafana.example.com"}]})

    answers = screening_names(cluster, screen)
    told = await answers.answer(request(make_spec(), hostnames=hostnames), Context())
    assert (told.passed, tuple(told.reasons)) == (not reasons, reasons)
    assert told.price.denom == "uact"
    both = await answers.answer(request(make_spec(price="1"), hostnames=hostnames), Context())
    assert tuple(both.reasons)[1:] == reasons


async def test_without_an_api_server_only_a_screening_with_hostnames_is_unavailable(world: World) -> None:
    cluster, screen = FakeCluster(), screen_of(Screening(world.market))

    def away(operation: str, kind: str, name: str) -> None:
        raise unreachable()

    cluster.before = away
    answers = screening_names(cluster, screen)
    assert (await answers.answer(request(make_spec()), Context())).passed
    with pytest.raises(RuntimeError, match="UNAVAILABLE this provider cannot answer now"):
        await answers.answer(request(make_spec(), hostnames=["free.example.com"]), Context())


async def test_the_answer_is_what_the_market_does_with_the_order(world: World) -> None:
    """Random orders, one by one, over what is left."""
    chance, screening = random.Random(5), Screening(world.market)
    bids = 0
    for dseq in range(1, 101):
        order = make_order(
            dseq,
            cpu=chance.choice([100, 900, 4500]),
            count=chance.randrange(1, 4),
            price=chance.choice(["1", "50"]),
            gpus=("vendor/nvidia/model/a100",) if chance.random() < 0.2 else (),
        )
        world.chain.orders[order.id] = order
        _, told = await screening.screen(order.spec, owner=order.id.owner)
        await consider(world.market, order)
        bid = order.id.bid_by(US) in world.chain.bid_states
        assert bid == (told.bid is not None)
        bids += bid
        if chance.random() < 0.8:
            world.ledger.release(order.id)
    assert 5 < bids < 95


async def test_a_price_script_runs_for_a_screening_only_when_the_group_fits(world: World) -> None:
    asked: list[PriceRequest] = []

    async def pricing(question: PriceRequest) -> Quote:
        asked.append(question)
        return Quote("shellScript", replace(question.most, amount=Decimal(3)))

    market = replace(world.market, pricing=pricing, rules=replace(RULES, prices=Quote("shellScript")))
    _, told = await Screening(market).screen(make_spec())
    assert told.bid is not None
    assert told.bid.price.amount == 3
    _, told = await Screening(market).screen(make_spec(cpu=9000))
    assert told.bid is None
    assert len(asked) == 1


async def test_the_screening_reports_that_the_provider_is_not_registered(world: World) -> None:
    world.chain.providers.clear()
    with pytest.raises(MarketError, match="not registered"):
        await Screening(world.market).screen(make_spec())


async def test_a_request_over_the_socket_is_answered_node_by_node(world: World, tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    task = asyncio.create_task(serve_questions(Screening(world.market), path))
    while not path.exists():
        await asyncio.sleep(0.01)
    try:
        assert path.stat().st_mode & 0o777 == 0o600
        groups = (make_spec(gpus=("vendor/nvidia/model/a100/ram/40Gi",)), make_spec())
        first, second = await asyncio.to_thread(ask_market, path, groups, owner="akash1x", reclamation_ns=None)
        assert first["verdict"] == "declined"
        assert first["nodes"]["node2"] == [
            "unit 1: gpu: 0 free that match, 1 needed (wanted nvidia a100 40Gi; free 1 × nvidia a100 24Gi pcie)"
        ]
        assert (second["verdict"], second["price"]) == ("bid", {"amount": "10", "denom": "uact"})
        with pytest.raises(ProviderUnreachable, match="no provider answers"):
            await asyncio.to_thread(ask_market, tmp_path / "none", groups, owner="", reclamation_ns=None)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not path.exists()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"groups": 5}',
        b'{"groups": [{}]}',
        b'{"groups": [], "reclamation_ns": "x"}',
        b"[" * 5000,
    ],
)
async def test_an_invalid_request_over_the_socket_is_refused(world: World, line: bytes) -> None:
    told = await answer(Screening(world.market), line)
    assert told == {"ok": False, "text": "this provider does not know this request"}
    assert json.dumps(told)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ("0.0.0.0", 8444)),
        ({"gateway_listen": "127.0.0.1:0"}, ("127.0.0.1", 0)),
        ({"gateway_listen": "[::1]:9000"}, ("::1", 9001)),
        ({"gateway_grpc_listen": "127.0.0.1:7000"}, ("127.0.0.1", 7000)),
    ],
)
def test_the_grpc_gateway_listens_beside_the_other_one(settings, address) -> None:
    assert grpc_address(Settings(**settings)) == address


@pytest.mark.parametrize(("notice", "understood"), [("3600", False), (1.5, False), (3600, True), (None, True)])
async def test_a_question_names_its_notice_in_whole_nanoseconds(world: World, notice: object, understood: bool) -> None:
    line = json.dumps({"groups": [], "reclamation_ns": notice}).encode()
    found = await answer(Screening(world.market), line)
    assert ("does not know this request" not in found.get("text", "")) is understood
