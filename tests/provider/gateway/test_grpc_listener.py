"""The gRPC listener: TLS 1.3 only, and limits of connections, of messages and of one peer's requests."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from akash.deployment.v1beta4 import types_pb2 as deployment_pb
from akash.provider.v1 import service_pb2, service_pb2_grpc

from lease.groups import GroupSpec
from provider.errors import MarketError, SettingsError
from provider.gateway.admission import ConnectionLimits
from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.grpc.frames import FrameGuard
from provider.gateway.grpc.methods import provider_methods
from provider.gateway.grpc.relay import relayed_peer
from provider.gateway.grpc.server import GrpcServer
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.tls import AccountCertificate, ensure_certificate
from tests.provider.gateway.world import PROVIDER
from tests.world.chain import FakeChain
from tests.world.patience import PATIENCE_S, eventually
from tests.world.virtual import VirtualClock


def nobody() -> ClientCertificates:
    """No client certificate is on the chain."""
    return ClientCertificates(FakeChain(), VirtualClock())


class Listening:
    """A listener whose screenings are counted and answered UNAVAILABLE."""

    def __init__(self, account: AccountCertificate) -> None:
        self.account = account
        self.screened: list[GroupSpec] = []
        self.peers: list[str] = []
        methods = provider_methods(BidScreening(self._screen, peer_of=self._peer_of))
        limits = ConnectionLimits(connections=6, of_one_address=4, handshake_s=0.5)
        self.server = GrpcServer(
            methods,
            host="127.0.0.1",
            port=0,
            served=ServedCertificates(account),
            clients=nobody(),
            limits=limits,
        )

    async def _screen(self, spec: GroupSpec):
        self.screened.append(spec)
        raise MarketError("not now")

    def _peer_of(self, peer: str) -> str:
        self.peers.append(relayed_peer(peer))
        return self.peers[-1]

    async def ask(self, request) -> grpc.StatusCode:
        options = [("grpc.ssl_target_name_override", "localhost")]
        credentials = grpc.ssl_channel_credentials(self.account.pem.encode())
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.server.port}", credentials, options=options) as channel:
            try:
                await service_pb2_grpc.ProviderRPCStub(channel).BidScreening(request, timeout=PATIENCE_S)
            except grpc.aio.AioRpcError as error:
                return error.code()
        return grpc.StatusCode.OK

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.account.pem)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        return context

    async def open(self, context: ssl.SSLContext | None = None, source: str = "127.0.0.1"):
        return await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=context, local_addr=(source, 0), limit=2**16
        )


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Listening]:
    found = Listening(ensure_certificate(PROVIDER, tmp_path, now=time.time(), hostname="localhost"))
    await found.server.start()
    yield found
    await found.server.stop()


async def test_an_address_that_is_taken_is_an_error_that_names_the_setting(listening: Listening) -> None:
    port = listening.server.port
    second = GrpcServer({}, host="127.0.0.1", port=port, served=ServedCertificates(listening.account), clients=nobody())
    with pytest.raises(SettingsError, match=rf"AP_GATEWAY_GRPC_LISTEN_ADDRESS=127\.0\.0\.1:{port}: .*in use"):
        await second.start()


SMALL = service_pb2.BidScreeningRequest(group_spec={})


async def test_a_client_of_tls_1_3_is_answered_and_one_of_tls_1_2_is_not(listening: Listening) -> None:
    context = listening.context()
    _, writer = await listening.open(context)
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
    writer.close()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await listening.open(context)


async def test_the_server_knows_the_address_of_a_peer_behind_the_relay(listening: Listening) -> None:
    assert await listening.ask(SMALL) is grpc.StatusCode.UNAVAILABLE
    assert listening.peers == ["127.0.0.1"]


@pytest.mark.parametrize("units", [40_000, 400_000])
async def test_a_message_above_64_kib_is_refused_before_anything_reads_it(listening: Listening, units: int) -> None:
    group = deployment_pb.GroupSpec.FromString(b"\x1a\x00" * units)
    large = service_pb2.BidScreeningRequest(group_spec=group)
    assert await listening.ask(large) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert listening.peers == listening.screened == []
    assert await listening.ask(SMALL) is grpc.StatusCode.UNAVAILABLE


async def test_no_more_grpc_connections_are_kept_than_one_address_and_all_may_have(listening: Listening) -> None:
    sources = ["127.0.0.1"] * 8 + ["127.0.0.2"] * 4
    opened = [await listening.open(source=source) for source in sources]
    await eventually(lambda: listening.server.admission.connections == 6)
    for _, writer in opened:
        writer.close()
    await eventually(lambda: listening.server.admission.connections == 0)
    assert await listening.ask(SMALL) is grpc.StatusCode.UNAVAILABLE


async def test_a_peer_without_a_tls_greeting_or_without_http_2_is_let_go(listening: Listening) -> None:
    for context in (None, listening.context()):
        reader, writer = await listening.open(context)
        if context is not None:
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(2**16):
                pass
        writer.close()
    await eventually(lambda: listening.server.admission.connections == 0)


def frame(kind: int, payload: bytes = b"", *, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + bytes(4) + payload


def test_frames_are_counted_wherever_the_bytes_are_cut() -> None:
    data = (
        bytes(24) + frame(4) + frame(1, bytes(500), flags=4) + frame(0, bytes(60_000)) * 20 + frame(6, bytes(8)) * 1990
    )
    for size in (1, 7, 1000, len(data)):
        guard = FrameGuard(lambda: 0.0)
        assert all(guard.admits(data[at : at + size]) for at in range(0, len(data), size))
        assert [guard.admits(frame(6, bytes(8))) for _ in range(10)] == [True] * 8 + [False] * 2


def test_a_header_block_has_an_end_or_the_connection_has() -> None:
    guard = FrameGuard(lambda: 0.0)
    assert guard.admits(bytes(24) + frame(1, bytes(16_000)) + frame(9, bytes(16_000), flags=4))
    assert guard.admits(frame(1, bytes(16_000)) + frame(9, bytes(16_000)))
    assert not guard.admits(frame(9, bytes(1_000)))


async def test_a_client_makes_many_calls_over_one_connection(listening: Listening) -> None:
    options = [("grpc.ssl_target_name_override", "localhost")]
    credentials = grpc.ssl_channel_credentials(listening.account.pem.encode())
    large = service_pb2.BidScreeningRequest(group_spec={}, hostnames=["a" * 500] * 101)
    async with grpc.aio.secure_channel(f"127.0.0.1:{listening.server.port}", credentials, options=options) as channel:
        stub = service_pb2_grpc.ProviderRPCStub(channel)
        for _ in range(200):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.BidScreening(large, timeout=PATIENCE_S)
            assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert listening.server.admission.refusals.total == {}
