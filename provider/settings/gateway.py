"""The gateways that tenants use."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import GrpcListen, Listen, ap

__all__ = ["GatewaySettings"]


class GatewaySettings(BaseModel):
    """Gateway"""

    gateway_listen: Listen = Field(
        "0.0.0.0:8443",
        validation_alias=ap("GATEWAY_LISTEN_ADDRESS"),
        description="Address and port of the REST gateway (HTTPS).",
    )
    gateway_grpc_listen: GrpcListen = Field(
        "",
        validation_alias=ap("GATEWAY_GRPC_LISTEN_ADDRESS"),
        description="Address and port of the gRPC gateway. Empty: the REST gateway's address, one port higher.",
    )
