"""The gRPC listener: TLS with the account certificate, limits, and one table of methods.

Leases and bids do not need it, so a listener that cannot start is an error in the log and stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog
from akash.provider.v1 import service_pb2
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from lease.groups import GroupSpec
from provider.claims.hostnames import hostname_rules
from provider.errors import SettingsError
from provider.gateway.grpc.bid_screening import BidScreening, screened_hostnames
from provider.market.explanation import Explanation
from provider.market.screening import Screening
from provider.protocols import Cluster
from provider.settings import Settings

__all__ = ["GrpcServer", "grpc_address", "provider_methods", "serve_grpc"]

_log = structlog.get_logger(__name__)
_SERVICE = "akash.provider.v1.ProviderRPC"
_MAX_MESSAGE_BYTES = 64 * 1024
"""Beyond the largest group that is converted (provider/chain/group_size.py) with a hundred hostnames."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 100),
    ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    ("grpc.so_reuseport", 0),
)
_DRAIN_S = 5.0


async def serve_grpc(screening: Screening, settings: Settings, *, certificate: Path, cluster: Cluster) -> None:
    """Listen until cancelled."""

    async def screen(spec: GroupSpec) -> Explanation:
        return (await screening.screen(spec))[1]

    host, port = grpc_address(settings)
    names = screened_hostnames(cluster, namespace=settings.manifest_namespace, rules=hostname_rules(settings))
    methods = provider_methods(BidScreening(screen, hostnames=names))
    server = GrpcServer(methods, host=host, port=port, certificate=certificate)
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


def provider_methods(screening: BidScreening) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
    """Methods of `ProviderRPC` by name; every other method is UNIMPLEMENTED."""
    return {
        "BidScreening": grpc.unary_unary_rpc_method_handler(
            screening.answer,
            request_deserializer=service_pb2.BidScreeningRequest.FromString,
            response_serializer=_serialized,
        )
    }


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


class GrpcServer:
    """`certificate`: the PEM file with the account certificate first and its key second."""

    def __init__(
        self, methods: Mapping[str, grpc.RpcMethodHandler[Any, Any]], *, host: str, port: int, certificate: Path
    ) -> None:
        self._address = f"{f'[{host}]' if ':' in host else host}:{port}"
        self._certificate = certificate
        self._methods = methods
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises `SettingsError` for an address that is not available."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=200)
        handler = grpc.method_handlers_generic_handler(_SERVICE, dict(self._methods))
        server.add_generic_rpc_handlers((handler,))
        try:
            self.port = server.add_secure_port(self._address, _credentials(self._certificate))
        except RuntimeError as error:
            raise SettingsError(
                f"AP_GATEWAY_GRPC_LISTEN_ADDRESS={self._address}: {error}; "
                "stop the program that listens there, or set another address of this machine"
            ) from error
        await server.start()
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(_DRAIN_S)
            self._server = None


def _credentials(path: Path) -> grpc.ServerCredentials:
    pem = path.read_bytes()
    key = load_pem_private_key(pem[pem.index(b"-----END CERTIFICATE-----") :].partition(b"\n")[2], None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificate = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.PEM)
    return grpc.ssl_server_credentials([(private, certificate)])
