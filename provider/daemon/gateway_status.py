"""What is wrong with the gateway, for the operator's status: its process, and the order of the CA's certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from provider.daemon.backends import Backends
from provider.daemon.gateway_process import GatewayProcess
from provider.gateway.issuer.config import IssuerConfig, issuer_config
from provider.gateway.issuer.renewal import CertificateIssuer, Order
from provider.gateway.server import Gateway
from provider.protocols import Clock

__all__ = ["certificate_issuer", "gateway_status"]


def certificate_issuer(backends: Backends) -> CertificateIssuer | None:
    """None when the provider orders no certificate."""
    config = issuer_config(backends.settings)
    return CertificateIssuer(config, backends.clock, order=_order) if config is not None else None


def gateway_status(gateway: Gateway | GatewayProcess, issuer: CertificateIssuer | None) -> dict[str, Any]:
    """`process` when the gateway is one, `issuer` when there is one."""
    found: dict[str, Any] = {}
    if isinstance(gateway, GatewayProcess):
        found["process"] = gateway.status()
    if issuer is not None:
        found["issuer"] = issuer.status()
    return found


async def _order(config: IssuerConfig, clock: Clock) -> str:
    """A certificate by ACME. The library is loaded beside the loop: a fifth of a second, needed once in weeks."""
    order: Order = await asyncio.to_thread(_acme)
    return await order(config, clock)


def _acme() -> Callable[..., Any]:
    from provider.gateway.issuer.order import order_certificate  # noqa: PLC0415

    return order_certificate
