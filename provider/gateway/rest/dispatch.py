"""Dispatch of a request: path, method, credentials, access, handler and errors, in this order (gateway.md §3.1–3.2)."""

from __future__ import annotations

import asyncio
import secrets
import time
import traceback
from collections.abc import Awaitable, Sequence
from http import HTTPStatus

import structlog
from aiohttp import web

from provider.errors import ChainError, ClusterError
from provider.gateway.admission import peer_group
from provider.gateway.auth.access import allowed_services, require_access
from provider.gateway.auth.claims import ANONYMOUS, Claims
from provider.gateway.auth.tokens import Tokens, read_credentials
from provider.gateway.client_gate import client_account
from provider.gateway.errors import GatewayError, RequestError
from provider.gateway.rest.answers import empty, refusal, text_error
from provider.gateway.rest.connection import Connection
from provider.gateway.rest.go_response import BareRefusal
from provider.gateway.rest.paths import clean_path, escape_path, request_path
from provider.gateway.rest.routes import Call, Handler, Match, Route, find_route, target_of
from provider.gateway.tenant_limits import TenantLimits

__all__ = ["CLUSTER_RETRY_S", "Dispatcher", "cluster_refusal"]

CLUSTER_RETRY_S = 2
"""Seconds after which a client may try again what the API server did not answer or take."""

_NOT_FOUND = "404 page not found"
_log = structlog.get_logger("gateway")


class Dispatcher:
    """The request handler of the listener. No request can make it raise."""

    def __init__(
        self, routes: Sequence[Route], tokens: Tokens, *, provider: str, limits: TenantLimits | None = None
    ) -> None:
        self._routes = routes
        self._public = {route.pattern: route.handler for route in routes if route.public}
        self._limits = limits
        self._tokens = tokens
        self._provider = provider
        self._turn = asyncio.Lock()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer the request and log one line, without headers, body and query: they may hold secrets."""
        if (handler := self._quick(request)) is not None:
            return await self._guarded(handler(Call(request, ANONYMOUS, None, {})))
        await self._begin()
        started = time.monotonic()
        with structlog.contextvars.bound_contextvars(request=secrets.token_hex(6)):
            response = await self._guarded(self._answer(request))
            elapsed_ms = round((time.monotonic() - started) * 1000, 1)
            path = request.raw_path.partition("?")[0][:200]
            _log.info(
                "gateway.request", method=request.method, path=path, status=response.status, elapsed_ms=elapsed_ms
            )
        return response

    async def _begin(self) -> None:
        """Wait for a pass of the loop in which no other request begins: a thousand at once delay nobody else."""
        async with self._turn:
            await asyncio.sleep(0)

    def _quick(self, request: web.BaseRequest) -> Handler | None:
        """The handler of a public route that is asked for without a token. Such answers are made already, nothing is
        asked for them; they are not logged, since probes ask for them all the time.
        """
        if request.method != "GET" or "Authorization" in request.headers or request.version < (1, 0):
            return None
        return self._public.get(request.raw_path)

    async def _guarded(self, answer: Awaitable[web.StreamResponse]) -> web.StreamResponse:
        try:
            return await answer
        except GatewayError as error:
            return refusal(error)
        except ClusterError as error:
            _log.warning("gateway.cluster_failed", problem=str(error))
            return refusal(cluster_refusal(error))
        except ChainError as error:
            _log.warning("gateway.chain_failed", problem=str(error))
            return text_error(500, "the chain cannot be read at the moment; try again later")
        except Exception as error:
            _log.error("gateway.request_failed", error=type(error).__name__, where=_frames(error))
            return text_error(500, "internal error")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.version < (1, 0):
            return BareRefusal("400 Bad Request")
        path, query = request_path(request.raw_path)
        cleaned = clean_path(path)
        if cleaned != path:
            return empty(301, Location=escape_path(cleaned) + (f"?{query}" if query else ""))
        found = find_route(self._routes, path)
        if found is None:
            raise RequestError(404, _NOT_FOUND)
        if not found.route.allows(request.method):
            raise RequestError(found.route.wrong_method, _NOT_FOUND if found.route.wrong_method == 404 else "")
        peer = peer_group(request.remote or "")
        account = client_account(request.transport)
        claims = await read_credentials(request.headers.get("Authorization"), self._tokens, peer=peer, account=account)
        call = self._call(request, claims, found)
        if self._limits is not None and not found.route.public:
            connection = request.protocol
            self._limits.take(call.owner, connection if isinstance(connection, Connection) else None)
        return await found.route.handler(call)

    def _call(self, request: web.BaseRequest, claims: Claims, found: Match) -> Call:
        if found.route.public:
            return Call(request, claims, None, found.values)
        require_access(claims, self._provider, None, None)
        target = target_of(found.values, claims.iss, self._provider)
        require_access(claims, self._provider, target, None)
        if found.route.check is not None:
            found.route.check(request.raw_path.partition("?")[2])
        require_access(claims, self._provider, target, found.route.scope)
        services = allowed_services(claims, self._provider, target, found.route.scope)
        return Call(request, claims, target, found.values, services)


def _frames(error: Exception) -> list[str]:
    """Where an error was raised, innermost last; without its message, which may hold a token or a tenant's values."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.name}:{frame.lineno}" for frame in frames[-6:]]


def cluster_refusal(error: ClusterError) -> RequestError:
    """The refusal with the status of gateway.md §3.1. Its text differs from the error's, which names internal
    addresses.
    """
    if error.passes:
        text = "kube: the API server is not reachable; try again later"
        return RequestError(503, text, retry_after_s=CLUSTER_RETRY_S)
    if error.status == HTTPStatus.NOT_FOUND:
        return RequestError(404, "kube: not found")
    return RequestError(500, "kube: internal error")
