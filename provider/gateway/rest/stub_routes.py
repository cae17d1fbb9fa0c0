"""Stubs for routes that are not implemented: migrations (gateway.md §3.10).

Path, credentials and scope are checked as the Go provider checks them; after that the answer is 501.
"""

from __future__ import annotations

import json

from aiohttp import web

from provider.gateway.config import Limits
from provider.gateway.errors import RequestError
from provider.gateway.rest.bodies import read_body
from provider.gateway.rest.routes import Call, Handler, Route

__all__ = ["stub_routes"]


def stub_routes(limits: Limits) -> list[Route]:
    post = frozenset({"POST"})
    return [
        Route("/hostname/migrate", _migration("hostnames_to_migrate", limits), methods=post),
        Route("/endpoint/migrate", _migration("endpoints_to_migrate", limits), methods=post),
    ]


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
