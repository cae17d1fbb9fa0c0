"""A gateway on loopback with its gRPC listener, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from lease.groups import GroupSpec
from provider.errors import MarketError
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.grpc.server import GrpcServer, gateway_methods
from tests.provider.gateway.certificates import Certified
from tests.provider.gateway.world import World
from tests.world.patience import PATIENCE_S

__all__ = ["GrpcWorld", "grpc_world"]


@dataclass
class GrpcWorld:
    """`screened`: the groups of all screenings, each of which is answered UNAVAILABLE."""

    world: World
    server: GrpcServer
    screened: list[GroupSpec]

    @asynccontextmanager
    async def channel(self, shown: Certified | None = None) -> AsyncIterator[grpc.aio.Channel]:
        """A connection of its own, with a client certificate or without."""
        pair = (shown.key_pem, shown.pem) if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(self.world.gateway.served.account.pem.encode(), *pair)
        options = [
            ("grpc.ssl_target_name_override", self.world.config.public_hostname),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.server.port}", credentials, options=options) as channel:
            yield channel

    async def call(
        self, method: str, request: Any, answer: Any, *, token: str = "", shown: Certified | None = None
    ) -> Any:
        """The answer to a unary call of `package.Service/Method`. Raises `grpc.aio.AioRpcError`."""
        async with self.channel(shown) as channel:
            called = channel.unary_unary(f"/{method}", type(request).SerializeToString, answer.FromString)
            return await called(request, metadata=bearer(token), timeout=PATIENCE_S)

    async def first(self, method: str, request: Any, answer: Any, *, token: str = "") -> Any:
        """The first message of a stream."""
        async with self.channel() as channel:
            called = channel.unary_stream(f"/{method}", type(request).SerializeToString, answer.FromString)
            stream = called(request, metadata=bearer(token), timeout=PATIENCE_S)
            found = await stream.read()
            stream.cancel()
            return found


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")] if token else []


@asynccontextmanager
async def grpc_world(world: World) -> AsyncIterator[GrpcWorld]:
    screened: list[GroupSpec] = []

    async def screen(spec: GroupSpec) -> Any:
        screened.append(spec)
        raise MarketError("not now")

    async with world.running():
        methods = gateway_methods(BidScreening(screen), world.gateway, world.clock)
        gateway = world.gateway
        server = GrpcServer(methods, host="127.0.0.1", port=0, served=gateway.served, clients=gateway.clients)
        await server.start()
        try:
            yield GrpcWorld(world, server, screened)
        finally:
            await server.stop()
