"""Stubs for routes that are not implemented: streams and migrations (gateway.md §3.8–3.10).

Path, credentials and scope are checked as the Go provider checks them; after that the answer is 501.
"""

from __future__ import annotations

import json

from aiohttp import web

from provider.gateway.auth.claims import Scope
from provider.gateway.config import Limits
from provider.gateway.errors import RequestError
from provider.gateway.rest.answers import text_error
from provider.gateway.rest.bodies import read_body
from provider.gateway.rest.routes import Call, Handler, Route

__all__ = ["stub_routes"]

_LEASE = "/lease/{dseq}/{gseq}/{oseq}"


def stub_routes(limits: Limits) -> list[Route]:
    post = frozenset({"POST"})
    return [
        Route(f"{_LEASE}/logs", _stream, scope=Scope.LOGS),
        Route(f"{_LEASE}/kubeevents", _stream, scope=Scope.EVENTS),
        Route(f"{_LEASE}/shell", _stream, methods=frozenset(), scope=Scope.SHELL),
        Route("/hostname/migrate", _migration("hostnames_to_migrate", limits), methods=post),
        Route("/endpoint/migrate", _migration("endpoints_to_migrate", limits), methods=post),
    ]


async def _stream(call: Call) -> web.StreamResponse:
    if call.request.headers.get("Upgrade", "").lower() != "websocket":
        answer = text_error(400, "Bad Request")
        answer.headers["Sec-Websocket-Version"] = "13"
        return answer
    raise RequestError(501, "this provider does not serve streams yet")


def _migration(names: str, limits: Limits) -> Handler:
    async def migrate(call: Call) -> web.StreamResponse:
        body = await read_body(call.request, limit=limits.small_body_bytes, seconds=limits.body_seconds)
        if not _names(body, names):
            raise RequestError(400, "")
        raise RequestError(501, "this provider does not migrate yet")

    return migrate


def _names(body: bytes, key: str) -> list[str]:
    try:
        document = json.loads(body)
        found = (document or {}).get(key) or []
    except (ValueError, AttributeError, RecursionError) as error:
        raise RequestError(422, "") from error
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RequestError(422, "")
    return found
