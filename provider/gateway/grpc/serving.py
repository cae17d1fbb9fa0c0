"""The gRPC gateway of a running provider. Leases and bids go on without it, so what keeps it from listening is loud and
stops nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from lease.groups import GroupSpec
from provider.errors import SettingsError
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.grpc.screened_hostnames import screened_hostnames
from provider.gateway.grpc.server import GrpcServer, provider_methods
from provider.market.explanation import Explanation
from provider.market.screening import Screening
from provider.protocols import Cluster
from provider.settings import Settings

__all__ = ["grpc_address", "serve_grpc"]

_log = structlog.get_logger(__name__)


async def serve_grpc(screening: Screening, settings: Settings, *, certificate: Path, cluster: Cluster) -> None:
    """Listen until cancelled."""

    async def screen(spec: GroupSpec) -> Explanation:
        return (await screening.screen(spec))[1]

    host, port = grpc_address(settings)
    names = screened_hostnames(cluster, namespace=settings.manifest_namespace, blocked=settings.blocked_hostnames)
    methods = provider_methods(BidScreening(screen, hostnames=names))
    server = GrpcServer(methods, host=host, port=port, certificate=certificate)
    try:
        await server.start()
    except SettingsError as error:
        _log.error("gateway.grpc_not_listening", problem=str(error))
        return
    _log.info("gateway.grpc", address=f"{host}:{server.port}")
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def grpc_address(settings: Settings) -> tuple[str, int]:
    """Port 0 lets the system choose, as for the other gateway."""
    host, _, text = (settings.gateway_grpc_listen or settings.gateway_listen).rpartition(":")
    port = int(text)
    if not settings.gateway_grpc_listen and port:
        port = port + 1 if port < 65535 else 0
    return host.strip("[]"), port
