"""Routes for the migration of hostnames and of IP endpoints between two leases of the caller (gateway.md §3.10).

Neither route has a scope: the Go provider checks none there, and tokens that exist rely on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lease.addresses import sharing_key
from lease.go_quote import go_quote
from lease.ids import LeaseId
from lease.manifest import Group
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError
from provider.claims.leased_ips import AddressClaim, wanted_addresses
from provider.errors import ClusterError
from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.rest.answers import compact_answer
from provider.gateway.rest.bodies import read_body
from provider.gateway.rest.dispatch import cluster_refusal
from provider.gateway.rest.routes import Call, Route
from provider.kube.labels import MANAGED
from provider.lifecycle.lease_claims import NotTransferredError
from provider.protocols import Cluster
from provider.protocols.cluster import MANIFEST
from provider.records.manifests import BadRecordError, ManifestRecord, read_manifest

__all__ = ["Migrations", "migration_routes"]

_MOST_NAMES = 1000
_UINT64, _UINT32 = 2**64 - 1, 2**32 - 1


class Migrations(Protocol):
    """The part of `lifecycle.lease_claims.LeaseClaims` that writes claims."""

    async def migrate_hosts(self, lease: LeaseId, hosts: Sequence[HostnameClaim]) -> None: ...

    async def migrate_ports(self, lease: LeaseId, ports: Sequence[AddressClaim]) -> None: ...


class _Body(BaseModel):
    """What the two bodies share. A missing or null field counts as empty, as in Go."""

    model_config = ConfigDict(strict=True)

    destination_dseq: int | None = Field(0, ge=0, le=_UINT64)
    destination_gseq: int | None = Field(0, ge=0, le=_UINT32)


class _HostnameBody(_Body):
    names: list[str] | None = Field(None, alias="hostnames_to_migrate", max_length=_MOST_NAMES)


class _EndpointBody(_Body):
    names: list[str] | None = Field(None, alias="endpoints_to_migrate", max_length=_MOST_NAMES)


@dataclass(frozen=True, slots=True)
class _Request:
    names: Sequence[str]
    dseq: int
    gseq: int


def migration_routes(config: GatewayConfig, cluster: Cluster, migrations: Migrations) -> list[Route]:
    async def hostnames(call: Call) -> web.StreamResponse:
        request = await _read(call, config, _HostnameBody)
        record = await _destination(cluster, config, call.owner, request)
        claims = [_host_claim(record, name) for name in request.names]
        try:
            await migrations.migrate_hosts(record.lease, claims)
        except HostnameRefusedError as error:
            raise RequestError(400, f"hostname not allowed: {error}") from error
        except NotTransferredError as error:
            text = "the cluster does not take the claim at the moment; send the request again"
            raise _refused(error.error, f"failed transferring {go_quote(error.name)}: {text}") from error
        except ClusterError as error:
            raise _refused(error) from error
        return compact_answer({"transferred": list(request.names)})

    async def endpoints(call: Call) -> web.StreamResponse:
        request = await _read(call, config, _EndpointBody)
        record = await _destination(cluster, config, call.owner, request)
        claims = [claim for name in request.names for claim in _port_claims(record, name)]
        try:
            await migrations.migrate_ports(record.lease, claims)
        except NotTransferredError as error:
            text = "kube: internal error: not every port was transferred; send it again"
            raise _refused(error.error, text) from error
        return compact_answer({"transferred": list(request.names)})

    post = frozenset({"POST"})
    return [
        Route("/hostname/migrate", hostnames, methods=post),
        Route("/endpoint/migrate", endpoints, methods=post),
    ]


async def _read(call: Call, config: GatewayConfig, form: type[_HostnameBody] | type[_EndpointBody]) -> _Request:
    """The request. Raises `RequestError` 422 for what is no such document, 400 for one without a name."""
    limits = config.limits
    body = await read_body(call.request, limit=limits.small_body_bytes, seconds=limits.body_seconds)
    try:
        document: Any = json.loads(body)
        found = form.model_validate({} if document is None else document)
    except (ValueError, ValidationError, RecursionError) as error:
        raise RequestError(422, "") from error
    if not found.names:
        raise RequestError(400, "")
    return _Request(found.names, found.destination_dseq or 0, found.destination_gseq or 0)


async def _destination(cluster: Cluster, config: GatewayConfig, owner: str, request: _Request) -> ManifestRecord:
    """The newest manifest of the caller's lease with these numbers. Raises `RequestError` 400 without one."""
    prefix = "akash.network/lease.id."
    numbers = {f"{prefix}dseq": str(request.dseq), f"{prefix}gseq": str(request.gseq)}
    labels = MANAGED | {f"{prefix}owner": owner, f"{prefix}provider": config.provider} | numbers
    try:
        found = await cluster.list(MANIFEST, namespace=config.manifest_namespace, labels=labels)
        records = [read_manifest(obj) for obj in found]
    except ClusterError as error:
        raise _refused(error) from error
    except BadRecordError as error:
        raise RequestError(500, "") from error
    if not records:
        raise RequestError(400, "destination deployment does not exist")
    return max(records, key=lambda record: record.lease.oseq)


def _refused(error: ClusterError, text: str = "") -> RequestError:
    """500 with `text` as of the Go provider; 503 where the same request may succeed a moment later."""
    if not error.passes:
        return RequestError(500, text)
    passing = cluster_refusal(error)
    return RequestError(passing.status, text or passing.text, retry_after_s=passing.retry_after_s)


def _host_claim(record: ManifestRecord, name: str) -> HostnameClaim:
    """The claim of the first expose that lists exactly this name. Raises `RequestError` 400 without one."""
    for service in record.group.services or ():
        for expose in service.expose or ():
            if expose.is_ingress and name in (expose.hosts or ()):
                return HostnameClaim(name.lower(), record.lease, service.name, expose.effective_port)
    raise RequestError(400, f"the hostname {go_quote(name)} is not used by this deployment")


def _port_claims(record: ManifestRecord, name: str) -> list[AddressClaim]:
    """The claims of all exposes on this endpoint. Raises `RequestError` 400 without one. The Go provider declares the
    exposes of every endpoint again, which would take them from other leases (gateway.md §3.10).
    """
    if name not in _endpoints(record.group):
        raise RequestError(400, f"the endpoint {go_quote(name)} does not exist in the destination deployment")
    key = sharing_key(record.lease.owner, name)
    return [claim for claim in wanted_addresses(record.lease, record.group) if claim.key == key]


def _endpoints(group: Group) -> set[str]:
    exposes = (expose for service in group.services or () for expose in service.expose or ())
    return {expose.ip for expose in exposes if expose.global_ and expose.ip}
