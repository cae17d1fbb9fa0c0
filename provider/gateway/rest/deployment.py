"""`PUT /deployment/{dseq}/manifest` (gateway.md §3.4)."""

from __future__ import annotations

from aiohttp import web

from provider.gateway.auth.claims import Scope
from provider.gateway.config import Limits
from provider.gateway.intake import ManifestIntake
from provider.gateway.rest.answers import empty
from provider.gateway.rest.bodies import read_body
from provider.gateway.rest.routes import Call, Route

__all__ = ["deployment_routes"]


def deployment_routes(intake: ManifestIntake, limits: Limits) -> list[Route]:
    async def put_manifest(call: Call) -> web.StreamResponse:
        body = await read_body(call.request, limit=limits.manifest_bytes, seconds=limits.body_seconds)
        await intake.accept_manifest(call.owner, call.deployment.dseq, body)
        return empty(200)

    return [
        Route("/deployment/{dseq}/manifest", put_manifest, methods=frozenset({"PUT"}), scope=Scope.SEND_MANIFEST),
    ]
