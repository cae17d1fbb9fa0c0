"""Where tenants reach us."""

from __future__ import annotations

from pydantic import BaseModel, Field

from provider.settings.kinds import Listen, ap

__all__ = ["GatewaySettings"]


class GatewaySettings(BaseModel):
    gateway_listen: Listen = Field("0.0.0.0:8443", validation_alias=ap("GATEWAY_LISTEN_ADDRESS"))
