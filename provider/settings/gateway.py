"""Where tenants reach us."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import GrpcListen, Listen, ap

__all__ = ["GatewaySettings"]


class GatewaySettings(BaseModel):
    gateway_listen: Listen = Field("0.0.0.0:8443", validation_alias=ap("GATEWAY_LISTEN_ADDRESS"))
    gateway_grpc_listen: GrpcListen = Field(
        "", validation_alias=ap("GATEWAY_GRPC_LISTEN_ADDRESS"), description="empty: one port above the other gateway's"
    )
