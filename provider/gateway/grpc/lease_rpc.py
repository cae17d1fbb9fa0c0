"""`LeaseRPC`: manifests and the status of services, for the tenant of a lease (gateway.md §5).

The Go provider defines these methods and does not serve them. Each asks for the scope of the REST route that does the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from akash.provider.lease.v1 import service_pb2, types_pb2

from lease.ids import LeaseId
from provider.gateway.auth.access import allowed_services, unauthorized
from provider.gateway.auth.claims import Scope
from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.grpc.callers import Callers
from provider.gateway.grpc.lease_logs import followed_logs, last_logs
from provider.gateway.grpc.manifest_message import manifest_text
from provider.gateway.grpc.places import StreamPlaces
from provider.gateway.intake import Intake
from provider.gateway.lease_status import lease_status, require_running_group
from provider.gateway.rest.stream_routes import StreamParts

__all__ = ["LeaseRpc"]

_PAUSE_S = 5.0


class LeaseRpc:
    """`places` limits the streams of each tenant, and the answers that hold logs."""

    def __init__(
        self,
        callers: Callers,
        config: GatewayConfig,
        *,
        intake: Intake,
        parts: StreamParts,
        places: StreamPlaces,
    ) -> None:
        self._callers = callers
        self._config = config
        self._intake = intake
        self._parts = parts
        self._places = places

    async def send_manifest(self, request: Any, context: Any) -> Any:
        """`SendManifestRequest` → an empty message. The manifest is that of the whole deployment, as on REST."""
        lease, _ = await self._callers.lease(context, request.lease_id, Scope.SEND_MANIFEST)
        await self._intake.require_lease(lease.owner, lease.dseq)
        try:
            text = await asyncio.to_thread(manifest_text, request.manifest)
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        await self._intake.accept_manifest(lease.owner, lease.dseq, text)
        return service_pb2.SendManifestResponse()

    async def service_status(self, request: Any, context: Any) -> Any:
        """`ServiceStatusRequest` → the services that it names, or all."""
        lease, wanted = await self._lease_and_services(request, context, Scope.STATUS)
        return await self._status(lease, wanted)

    async def stream_service_status(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """The same at once, and again whenever it changes."""
        lease, wanted = await self._lease_and_services(request, context, Scope.STATUS)
        with self._places.take(lease.owner):
            shown = None
            while True:
                message = await self._status(lease, wanted)
                if message != shown:
                    yield message
                shown = message
                await self._parts.clock.sleep(_PAUSE_S)

    async def attestation_quote(self, request: Any, context: Any) -> Any:
        """Refuse the tenant of the lease, as Go's generated code refuses a method that a provider does not have: there
        is no hardware that attests.
        """
        await self._callers.lease(context, request.lease_id, Scope.ATTESTATION)
        raise RequestError(501, "method AttestationQuote not implemented")

    async def service_logs(self, request: Any, context: Any) -> Any:
        """`ServiceLogsRequest` → the last lines of the services that it names, or of all."""
        lease, wanted = await self._lease_and_services(request, context, Scope.LOGS)
        with self._places.take(lease.owner):
            return await last_logs(self._parts, lease, wanted)

    async def stream_service_logs(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """All lines as messages, and those that follow."""
        lease, wanted = await self._lease_and_services(request, context, Scope.LOGS)
        with self._places.take(lease.owner):
            async with aclosing(followed_logs(self._parts, lease, wanted)) as messages:
                async for message in messages:
                    yield message

    async def _lease_and_services(
        self, request: Any, context: Any, scope: Scope
    ) -> tuple[LeaseId, frozenset[str] | None]:
        """The lease, and the services that are asked for; None for all. Raises `AuthError` 401 for a service that the
        caller may not read.
        """
        lease, claims = await self._callers.lease(context, request.lease_id, scope)
        allowed = allowed_services(claims, self._config.provider, lease, scope)
        named = frozenset(request.services) or None
        if named is None or allowed is None:
            return lease, named if allowed is None else allowed
        if not named <= allowed:
            raise unauthorized()
        return lease, named

    async def _status(self, lease: LeaseId, wanted: frozenset[str] | None) -> Any:
        objects = await self._parts.read(lease)
        group = require_running_group(objects)
        document = lease_status(
            group, objects, public_hostname=self._config.public_hostname, leased_ips=self._config.leased_ips
        )
        rows = [_service(name, document) for name in sorted(document["services"]) if wanted is None or name in wanted]
        return service_pb2.ServiceStatusResponse(services=rows)


def _service(name: str, document: dict[str, Any]) -> Any:
    row = document["services"][name]
    numbers = {key: value for key, value in row.items() if key not in ("name", "uris")}
    return types_pb2.ServiceStatus(
        name=name,
        status=types_pb2.LeaseServiceStatus(uris=row["uris"] or (), **numbers),
        ports=[_port(port) for port in (document["forwarded_ports"] or {}).get(name, ())],
        ips=[_address(address) for address in (document["ips"] or {}).get(name, ())],
    )


def _port(port: dict[str, Any]) -> Any:
    return types_pb2.ForwarderPortStatus(
        host=port.get("host", ""),
        port=port["port"],
        external_port=port["externalPort"],
        proto=port["proto"],
        name=port["name"],
    )


def _address(address: dict[str, Any]) -> Any:
    return types_pb2.LeaseIPStatus(
        port=address["Port"], external_port=address["ExternalPort"], protocol=address["Protocol"], ip=address["IP"]
    )
