"""Routes for tenants: sending the manifest of a deployment; reading a lease's manifest, its status and the status of
one service (gateway.md §3.4–3.7).

Reading makes no chain query: a lease exists when the cluster holds its manifest (gateway.md §3.11).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import web

from lease.go_quote import go_quote
from lease.manifest import Group, Service
from lease.manifest_json import manifest_value
from provider.gateway.auth.claims import Scope
from provider.gateway.config import GatewayConfig, Limits
from provider.gateway.errors import RequestError
from provider.gateway.intake import Intake
from provider.gateway.lease_objects import LeaseObjects, ReadLease, ReadManifest
from provider.gateway.lease_status import (
    lease_status,
    require_running_group,
    service_status,
    stored_group,
)
from provider.gateway.rest.answers import empty, json_answer
from provider.gateway.rest.bodies import read_body
from provider.gateway.rest.routes import Call, Route
from provider.records.manifests import BadRecordError, read_manifest

__all__ = ["deployment_routes", "lease_routes"]

_LEASE = "/lease/{dseq}/{gseq}/{oseq}"


def deployment_routes(intake: Intake, limits: Limits) -> list[Route]:
    async def put_manifest(call: Call) -> web.StreamResponse:
        await intake.require_lease(call.owner, call.deployment.dseq)
        body = await read_body(call.request, limit=limits.manifest_bytes, seconds=limits.body_seconds)
        await intake.accept_manifest(call.owner, call.deployment.dseq, body)
        return empty(200)

    return [
        Route("/deployment/{dseq}/manifest", put_manifest, methods=frozenset({"PUT"}), scope=Scope.SEND_MANIFEST),
    ]


def lease_routes(config: GatewayConfig, read: ReadLease, stored: ReadManifest) -> list[Route]:
    """`stored` reads what is stored now: a tenant may ask for the manifest right after sending it."""

    async def get_manifest(call: Call) -> web.StreamResponse:
        manifest = await stored(call.lease)
        if manifest is None:
            raise RequestError(404, "lease not found")
        group = _returned(stored_group(manifest))
        if call.services is not None:
            group = replace(group, services=tuple(each for each in group.services or () if each.name in call.services))
        return json_answer(manifest_value((group,)))

    async def get_status(call: Call) -> web.StreamResponse:
        objects = await read(call.lease)
        group = require_running_group(objects)
        document = lease_status(group, objects, public_hostname=config.public_hostname, leased_ips=config.leased_ips)
        return json_answer(_of_services(document, call.services))

    async def get_service_status(call: Call) -> web.StreamResponse:
        name = call.values["service"]
        call.require_service(name)
        objects = await read(call.lease)
        _require_service(objects, name)
        document = service_status(name, objects)
        if document is None:
            raise RequestError(404, f"kube: internal error: workload {go_quote(name)} not found")
        return json_answer(document)

    return [
        Route(f"{_LEASE}/manifest", get_manifest, scope=Scope.GET_MANIFEST),
        Route(f"{_LEASE}/status", get_status, scope=Scope.STATUS),
        Route(f"{_LEASE}/service/{{service}}/status", get_service_status, scope=Scope.STATUS),
    ]


def _of_services(document: dict[str, Any], services: frozenset[str] | None) -> dict[str, Any]:
    """The lease status with the parts of these services only; None for all."""
    if services is None:
        return document
    parts = {name: document[name] for name in ("services", "forwarded_ports", "ips")}
    return document | {
        name: part and {service: part[service] for service in part if service in services}
        for name, part in parts.items()
    }


def _returned(group: Group) -> Group:
    """The group as the Go provider returns it: without endpoints, and with null for empty lists other than the mounts
    (gateway.md §3.5).
    """
    return replace(group, services=tuple(map(_returned_service, group.services or ())) or None)


def _returned_service(service: Service) -> Service:
    exposes = tuple(replace(expose, hosts=expose.hosts or None) for expose in service.expose or ())
    return replace(
        service,
        command=service.command or None,
        args=service.args or None,
        env=service.env or None,
        expose=exposes or None,
        resources=replace(service.resources, endpoints=None),
        params=service.params and replace(service.params, storage=service.params.storage or ()),
    )


def _require_service(objects: LeaseObjects, name: str) -> None:
    """Raise `RequestError` 404 unless the lease has the service. A manifest that cannot be read counts as none, as in
    Go.
    """
    if not objects.namespace:
        raise RequestError(404, "kube: lease not found")
    try:
        services = read_manifest(objects.manifest or {}).group.services or ()
    except BadRecordError as error:
        raise RequestError(404, "kube: no manifest for lease") from error
    if name not in (service.name for service in services):
        raise RequestError(404, "kube: no service for that lease")
