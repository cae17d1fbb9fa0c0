"""Routes without credentials: /version, /address, /status (gateway.md §3.3), and /metrics where it is asked for."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Generic, TypeAlias, TypeVar

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
_T = TypeVar("_T")


def public_routes(
    config: GatewayConfig, status: ReadStatus, kube_version: KubeVersion, metrics: Metrics | None = None
) -> list[Route]:
    def version_answer(kube: Mapping[str, Any]) -> GoResponse:
        return json_answer({"akash": own_version(), "kube": dict(kube)})

    def status_answer(found: ProviderStatus) -> GoResponse:
        document = status_document(
            found,
            address=config.provider,
            public_hostname=config.public_hostname,
            reclamation_window_ns=config.reclamation_window_ns,
        )
        return json_answer(document)

    statuses, versions = _LastAnswer(status_answer), _LastAnswer(version_answer)
    address = json_answer({"address": config.provider})

    async def get_address(_: Call) -> web.StreamResponse:
        return address.again()

    async def get_version(_: Call) -> web.StreamResponse:
        return versions.to(await kube_version())

    async def get_status(_: Call) -> web.StreamResponse:
        return statuses.to(await status())

    async def get_metrics(call: Call) -> web.StreamResponse:
        assert metrics is not None  # noqa: S101  (the route exists only then)
        body, content_type = await metrics(call.request.headers.get("Accept", ""))
        return GoResponse(200, body, {"Content-Type": content_type})

    handlers: dict[str, Handler] = {"/version": get_version, "/address": get_address, "/status": get_status}
    if metrics is not None:
        handlers["/metrics"] = get_metrics
    return [Route(pattern, handler, public=True) for pattern, handler in handlers.items()]


class _LastAnswer(Generic[_T]):
    """The answer to the newest value. It is made once for all requests that read the same value."""

    def __init__(self, make: Callable[[_T], GoResponse]) -> None:
        self._make = make
        self._value: _T | None = None
        self._answer = GoResponse(500)

    def to(self, value: _T) -> GoResponse:
        if value is not self._value:
            self._value, self._answer = value, self._make(value)
        return self._answer.again()


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
