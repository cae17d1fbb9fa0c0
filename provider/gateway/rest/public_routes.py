"""Routes without credentials: /version, /address, /status (gateway.md §3.3), and /metrics where it is asked for."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from aiohttp import web

from provider.gateway.config import GatewayConfig
from provider.gateway.provider_status import ProviderStatus, status_document
from provider.gateway.rest.answers import json_answer
from provider.gateway.rest.go_response import GoResponse
from provider.gateway.rest.routes import Call, Handler, Route

__all__ = ["KubeVersion", "Metrics", "ReadStatus", "own_version", "public_routes"]

ReadStatus: TypeAlias = Callable[[], Awaitable[ProviderStatus]]
KubeVersion: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""The API server's /version document."""
Metrics: TypeAlias = Callable[[str], Awaitable[tuple[bytes, str]]]
"""An Accept header → the metrics as text, and its content type."""


def public_routes(
    config: GatewayConfig, status: ReadStatus, kube_version: KubeVersion, metrics: Metrics | None = None
) -> list[Route]:
    async def get_address(_: Call) -> web.StreamResponse:
        return json_answer({"address": config.provider})

    async def get_version(_: Call) -> web.StreamResponse:
        return json_answer({"akash": own_version(), "kube": dict(await kube_version())})

    def status_answer(found: ProviderStatus) -> GoResponse:
        document = status_document(
            found,
            address=config.provider,
            public_hostname=config.public_hostname,
            reclamation_window_ns=config.reclamation_window_ns,
        )
        return json_answer(document)

    answer = _LastAnswer(status_answer)

    async def get_status(_: Call) -> web.StreamResponse:
        return answer.to(await status())

    async def get_metrics(call: Call) -> web.StreamResponse:
        assert metrics is not None  # noqa: S101  (the route exists only then)
        body, content_type = await metrics(call.request.headers.get("Accept", ""))
        return GoResponse(200, body, {"Content-Type": content_type})

    handlers: dict[str, Handler] = {"/version": get_version, "/address": get_address, "/status": get_status}
    if metrics is not None:
        handlers["/metrics"] = get_metrics
    return [Route(pattern, handler, public=True) for pattern, handler in handlers.items()]


class _LastAnswer:
    """The answer to the newest status. It is made once for all requests that read the same status."""

    def __init__(self, make: Callable[[ProviderStatus], GoResponse]) -> None:
        self._make = make
        self._status: ProviderStatus | None = None
        self._answer = GoResponse(500)

    def to(self, status: ProviderStatus) -> GoResponse:
        if status is not self._status:
            self._status, self._answer = status, self._make(status)
        return GoResponse(200, self._answer.content, self._answer.headers)


def own_version() -> dict[str, Any]:
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
