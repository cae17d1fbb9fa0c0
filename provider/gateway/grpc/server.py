"""The gRPC listener: TLS with the account certificate, limits, and one table of methods.

Leases and bids do not need it, so a listener that cannot start is an error in the log and stops nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import grpc.aio
import structlog

from provider.claims.hostnames import hostname_rules
from provider.errors import SettingsError
from provider.gateway.admission import Admission, ConnectionLimits
from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.grpc.bid_screening import BidScreening, screened_hostnames
from provider.gateway.grpc.callers import Callers
from provider.gateway.grpc.lease_rpc import LeaseRpc
from provider.gateway.grpc.methods import Methods, common_methods, lease_methods, provider_methods
from provider.gateway.grpc.places import StreamPlaces
from provider.gateway.grpc.provider_rpc import ProviderRpc
from provider.gateway.grpc.relay import GrpcRelay, relayed_peer
from provider.gateway.listener import TlsListener
from provider.gateway.refusals import Refusals
from provider.gateway.served_certificates import ServedCertificates
from provider.gateway.server import Gateway
from provider.gateway.turns import Turns
from provider.gateway.verdict import Screen
from provider.protocols import Clock, Cluster
from provider.settings import Settings

__all__ = ["GrpcServer", "gateway_methods", "grpc_address", "serve_grpc"]

_log = structlog.get_logger(__name__)
_MAX_MESSAGE_BYTES = 64 * 1024
"""Beyond the largest group that is converted (provider/chain/group_size.py) with a hundred hostnames."""
_STREAMS = 8
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", _STREAMS),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024),
    ("grpc.http2.lookahead_bytes", _MAX_MESSAGE_BYTES),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 30_000),
)
"""A connection keeps at most so many unfinished messages of 64 KiB, and no longer than ten minutes."""
_STREAMS_OF_ALL, _STREAMS_OF_ONE = 32, 4
"""Streams at one time, of public methods, of gRPC's own and of tenants each; and of one peer or tenant."""
_MAX_RPCS = 32 + 3 * _STREAMS_OF_ALL
_WRITE_S = 20.0
_DRAIN_S = 5.0


async def serve_grpc(screen: Screen, settings: Settings, *, gateway: Gateway, cluster: Cluster, clock: Clock) -> None:
    """Serve what `gateway` serves on REST, and screenings, until cancelled."""
    host, port = grpc_address(settings)
    rules = hostname_rules(settings)
    names = screened_hostnames(cluster, clock, namespace=settings.manifest_namespace, rules=rules)
    methods = gateway_methods(BidScreening(screen, hostnames=names, peer_of=relayed_peer), gateway, clock)
    limits = ConnectionLimits(settings.gateway_grpc_connections, settings.gateway_grpc_connections_of_address)
    server = GrpcServer(methods, host=host, port=port, served=gateway.served, clients=gateway.clients, limits=limits)
    try:
        await server.start()
    except SettingsError as error:
        _log.error("gateway.grpc_not_listening", problem=str(error))
        return
    _log.info("gateway.grpc_listening", address=f"{host}:{server.port}")
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def grpc_address(settings: Settings) -> tuple[str, int]:
    """Host and port of the gRPC listener: its own setting, else the port after the REST gateway's. Port 0 lets the
    system choose.
    """
    host, _, text = (settings.gateway_grpc_listen or settings.gateway_listen).rpartition(":")
    port = int(text)
    if not settings.gateway_grpc_listen and port:
        port = port + 1 if port < 65535 else 0
    return host.strip("[]"), port


def gateway_methods(screening: BidScreening, gateway: Gateway, clock: Clock) -> Methods:
    """All methods of this provider, over what `gateway` serves on REST."""
    config, refusals = gateway.config, gateway.admission.refusals
    public = StreamPlaces(most=_STREAMS_OF_ALL, of_one=_STREAMS_OF_ONE, reason="gRPC streams", refusals=refusals)
    tenants = StreamPlaces(
        most=_STREAMS_OF_ALL, of_one=_STREAMS_OF_ONE, reason="gRPC streams of tenants", refusals=refusals
    )
    lease = LeaseRpc(
        Callers(gateway.tokens, provider=config.provider),
        config,
        intake=gateway.intake,
        parts=gateway.stream_parts,
        places=tenants,
    )
    provider = ProviderRpc(gateway.status, config, clock=clock, places=public)
    return {**provider_methods(screening, provider), **lease_methods(lease)}


class GrpcServer:
    """Serves `methods`, health and reflection. TLS 1.3 only, as REST."""

    def __init__(
        self,
        methods: Methods,
        *,
        host: str,
        port: int,
        served: ServedCertificates,
        clients: ClientCertificates,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._host, self._asked_port = host, port
        self._served, self._clients = served, clients
        self._methods = methods
        self._running = AsyncExitStack()
        self._refusals = Refusals()
        self.admission = Admission(limits or ConnectionLimits(connections=128, of_one_address=16), self._refusals)
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises `SettingsError` for an address that is not available."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="lessor-grpc-")))  # mode 0700
            relay = GrpcRelay(folder / "server", write_s=_WRITE_S, refusals=self._refusals)
            listener = TlsListener(
                relay.end, self._served.grpc(), clients=self._clients, admission=self.admission, turns=Turns()
            )
            stack.push_async_callback(listener.abort)
            await self._serve(folder / "server", stack)
            await listener.start(self._host, self._asked_port, setting="AP_GATEWAY_GRPC_LISTEN_ADDRESS")
            stack.callback(listener.close)
            self.port = listener.address[1]
            self._running = stack.pop_all()

    async def stop(self) -> None:
        await self._running.aclose()

    async def _serve(self, path: Path, stack: AsyncExitStack) -> None:
        """Start the server behind the relay; `stack` stops it."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_MAX_RPCS)
        places = StreamPlaces(
            most=_STREAMS_OF_ALL, of_one=_STREAMS_OF_ONE, reason="gRPC streams", refusals=self._refusals
        )
        for service, methods in {**self._methods, **common_methods(self._methods, places)}.items():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(methods)),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        stack.push_async_callback(server.stop, _DRAIN_S)
