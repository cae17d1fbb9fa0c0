"""Where bytes of strangers enter the gRPC gateway: a connection after its TLS handshake."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from akash.provider.v1 import service_pb2, service_pb2_grpc

from lease.groups import GroupSpec
from provider.errors import MarketError
from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.grpc.methods import provider_methods
from provider.gateway.grpc.server import GrpcServer
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.tls import ensure_certificate
from tests.hostile.corpus import EntryPoint
from tests.provider.gateway.world import PROVIDER
from tests.world.chain import FakeChain
from tests.world.patience import PATIENCE_S, eventually
from tests.world.virtual import VirtualClock

__all__ = ["ENTRY_POINTS"]


async def _connection(data: bytes, folder: Path) -> Mapping[str, int]:
    """A client that sends the bytes and stays while another client is answered."""
    screened: list[GroupSpec] = []

    async def screen(spec: GroupSpec) -> Any:
        screened.append(spec)
        raise MarketError("not now")

    account = ensure_certificate(PROVIDER, folder, now=time.time(), hostname="localhost")
    methods = provider_methods(BidScreening(screen))
    server = GrpcServer(
        methods,
        host="127.0.0.1",
        port=0,
        served=ServedCertificates(account),
        clients=ClientCertificates(FakeChain(), VirtualClock()),
    )
    await server.start()
    try:
        context = ssl.create_default_context(cadata=account.pem)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            await reader.read(1)
        kept = server.admission.connections
        converted = len(screened)
        assert await _answer(server.port, account.pem) is grpc.StatusCode.UNAVAILABLE
        writer.transport.abort()
        await eventually(lambda: server.admission.connections <= 1)
    finally:
        await server.stop()
    return {"connections": kept, "groups converted": converted}


async def _answer(port: int, pem: str) -> grpc.StatusCode:
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    credentials = grpc.ssl_channel_credentials(pem.encode())
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
        try:
            request = service_pb2.BidScreeningRequest(group_spec={})
            await service_pb2_grpc.ProviderRPCStub(channel).BidScreening(request, timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


ENTRY_POINTS = (EntryPoint("a gRPC connection", "http2", _connection, {"connections": 1, "groups converted": 0}),)
