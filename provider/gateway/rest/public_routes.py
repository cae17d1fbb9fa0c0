"""Routes without credentials: /version, /address, /status (gateway.md §3.3)."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from aiohttp import web

from provider.gateway.config import GatewayConfig
from provider.gateway.provider_status import ProviderStatus, status_document
from provider.gateway.rest.answers import json_answer
from provider.gateway.rest.routes import Call, Route

__all__ = ["KubeVersion", "ReadStatus", "public_routes"]

ReadStatus: TypeAlias = Callable[[], Awaitable[ProviderStatus]]
KubeVersion: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""The API server's /version document."""


def public_routes(config: GatewayConfig, status: ReadStatus, kube_version: KubeVersion) -> list[Route]:
    async def get_address(_: Call) -> web.StreamResponse:
        return json_answer({"address": config.provider})

    async def get_version(_: Call) -> web.StreamResponse:
        return json_answer({"akash": _own_version(), "kube": dict(await kube_version())})

    async def get_status(_: Call) -> web.StreamResponse:
        document = status_document(
            await status(),
            address=config.provider,
            public_hostname=config.public_hostname,
            reclamation_window_ns=config.reclamation_window_ns,
        )
        return json_answer(document)

    handlers = {"/version": get_version, "/address": get_address, "/status": get_status}
    return [Route(pattern, handler, public=True) for pattern, handler in handlers.items()]


def _own_version() -> dict[str, Any]:
    """The version document with the Go provider's fields. Fields about Go modules and the Cosmos SDK are empty."""
    try:
        number = version("lessor")
    except PackageNotFoundError:
        number = "0.0.0"
    return {
        "name": "lessor",
        "server_name": "lessor",
        "version": number,
        "commit": "",
        "build_tags": "",
        "go": f"{platform.python_implementation()} {platform.python_version()}",
        "build_deps": [],
        "cosmos_sdk_version": "",
    }
