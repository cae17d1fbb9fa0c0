"""Queries of deployments, escrow and providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from akash.audit.v1 import query_pb2 as apb
from akash.audit.v1.types_pb2 import AuditedProvider
from akash.deployment.v1.types_pb2 import Deployment
from akash.deployment.v1beta4 import query_pb2 as dpb
from akash.deployment.v1beta4.types_pb2 import Params
from akash.discovery.v1 import service_pb2 as discovery_pb
from akash.discovery.v1.types_pb2 import Akash, ClientInfo, ModuleVersion, VersionInfo
from akash.escrow.id.v1.types_pb2 import Scope
from akash.escrow.types.v1.types_pb2 import State
from akash.escrow.v1 import query_pb2 as epb
from akash.provider.v1beta4 import query_pb2 as ppb
from cosmos.base.v1beta1.coin_pb2 import Coin

from devnet.chain import ids
from devnet.chain.blocks import NODE_VERSION
from devnet.chain.errors import Kind, QueryRefused
from devnet.chain.keys import raw_address, valid_address
from devnet.chain.query.paging import (
    Page,
    Row,
    Start,
    binary_key,
    decode_key,
    encode_key,
    page,
    sdk_page,
    states_of,
    visit,
)
from devnet.chain.query.view import Query
from devnet.chain.wire import Message

__all__ = [
    "accounts",
    "all_audited",
    "audited",
    "audited_by",
    "deployment",
    "deployments",
    "discovery",
    "discovery_json",
    "group",
    "params",
    "payments",
    "provider",
    "providers",
]

_NOT_FOUND = grpc.StatusCode.NOT_FOUND
_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_NO_DEPLOYMENT = Kind("deployment", 4, "Deployment not found", _NOT_FOUND)
_NO_GROUP = Kind("deployment", 14, "Group not found", _NOT_FOUND)
_NO_PROVIDER = Kind("provider", 3, "invalid provider: address not found", _NOT_FOUND)
_BAD_PROVIDER = Kind("provider", 5, "invalid address", _INVALID)
_NO_AUDIT = Kind("audit", 1, "invalid provider: address not found", _NOT_FOUND)
_BAD_AUDITED = Kind("audit", 2, "invalid address", _INVALID)
_BY_OWNER = b"\x01"
_ACCOUNT_PREFIX, _PAYMENT_PREFIX = b"\x11\x00", b"\x12\x00"
_LIMIT = 100
_MODULES = (
    ("audit", "v1"),
    ("bme", "v1"),
    ("cert", "v1"),
    ("deployment", "v1beta4"),
    ("escrow", "v1"),
    ("market", "v1beta5"),
    ("oracle", "v2"),
    ("provider", "v1beta4"),
    ("take", "v1"),
    ("wasm", "v1"),
)


def _pagination(found: Page) -> dict[str, Any]:
    return {"next_key": found.next_key, "total": len(found.rows)}


def deployments(query: Query, request: Message) -> Message:
    filters = request.filters
    rows = (
        Row(binary_key(value.id.owner, (value.id.dseq, 8)), value.state, value)
        for _, value in query.state.items("deployment", (filters.owner,) if filters.owner else ())
    )
    found = page(
        rows,
        request,
        states_of(Deployment.State, filters.state),
        accept=lambda row: not filters.dseq or row.value.id.dseq == filters.dseq,
        by_state=not filters.owner,
        path=_BY_OWNER if filters.owner else b"",
    )
    shown = [_deployment_response(query, row.value) for row in found.rows]
    return dpb.QueryDeploymentsResponse(deployments=shown, pagination=_pagination(found))


def deployment(query: Query, request: Message) -> Message:
    return _deployment_response(query, _single(query, "deployment", request.id, _NO_DEPLOYMENT))


def _deployment_response(query: Query, value: Message) -> Message:
    groups = [row for _, row in query.state.items("group", ids.key(value.id))]
    account = query.state.get("escrow_account", (Scope.deployment, ids.deployment_xid(value.id)))
    return dpb.QueryDeploymentResponse(deployment=value, groups=groups, escrow_account=account)


def group(query: Query, request: Message) -> Message:
    return dpb.QueryGroupResponse(group=_single(query, "group", request.id, _NO_GROUP))


def _single(query: Query, table: str, wanted: Message, missing: Kind) -> Message:
    if not valid_address(wanted.owner):
        raise QueryRefused(_INVALID, "invalid owner address")
    found = query.state.get(table, ids.key(wanted))
    if found is None:
        raise missing.in_query()
    return found


def params(query: Query, request: Message) -> Message:
    rows = [Coin(denom=denom, amount=str(amount)) for denom, amount in query.genesis.min_deposits.items()]
    return dpb.QueryParamsResponse(params=Params(min_deposits=rows))


def _escrow_page(request: Message, rows: Iterator[Row], prefix: bytes) -> Page:
    """The node ignores offset and reverse (chain.md §5); `xid` is part of the index prefix."""
    asked, inner = request.pagination, f"/{request.xid}".encode() if request.xid else b""
    states = states_of(State, request.state)
    start = decode_key(asked.key, prefix=inner) if asked.key else Start(states, b"")
    found = visit([row for row in rows if row.key.startswith(inner)], start)
    limit = asked.limit or _LIMIT
    shown, rest = found[:limit], found[limit:]
    return Page(shown, encode_key(start.states, rest[0], prefix=(prefix, inner)) if rest else b"")


def accounts(query: Query, request: Message) -> Message:
    rows = (
        Row(f"/{Scope.Name(key[0])}/{key[1]}".encode(), value.state.state, value)
        for key, value in query.state.items("escrow_account")
    )
    found = _escrow_page(request, rows, _ACCOUNT_PREFIX)
    return epb.QueryAccountsResponse(accounts=[row.value for row in found.rows], pagination=_pagination(found))


def payments(query: Query, request: Message) -> Message:
    rows = (
        Row(f"/deployment/{key[0]}/{key[1]}".encode(), value.state.state, value)
        for key, value in query.state.items("escrow_payment")
    )
    found = _escrow_page(request, rows, _PAYMENT_PREFIX)
    return epb.QueryPaymentsResponse(payments=[row.value for row in found.rows], pagination=_pagination(found))


def provider(query: Query, request: Message) -> Message:
    if not valid_address(request.owner):
        raise _BAD_PROVIDER.in_query()
    found = query.state.get("provider", (request.owner,))
    if found is None:
        raise _NO_PROVIDER.in_query()
    return ppb.QueryProviderResponse(provider=found)


def providers(query: Query, request: Message) -> Message:
    found = [value for _, value in query.state.items("provider")]
    rows, pagination = sdk_page(found, request, _provider_key)
    return ppb.QueryProvidersResponse(providers=rows, pagination=pagination)


def _provider_key(row: Message) -> bytes:
    raw = raw_address(row.owner) or b""
    return b"\1" + bytes([len(raw)]) + raw


def audited(query: Query, request: Message) -> Message:
    """`ProviderAttributes`: the attributes that any auditor signed for a provider."""
    if not valid_address(request.owner):
        raise _BAD_AUDITED.in_query()
    rows = (value for _, value in query.state.items("audit", (request.owner,)))
    found = sorted(rows, key=lambda row: raw_address(row.auditor) or b"")
    if not found:
        raise _NO_AUDIT.in_query()
    return apb.QueryProvidersResponse(providers=found)


def audited_by(query: Query, request: Message) -> Message:
    """`ProviderAuditorAttributes`: the attributes that one auditor signed for a provider."""
    if not valid_address(request.auditor) or not valid_address(request.owner):
        raise _BAD_AUDITED.in_query()
    found = query.state.get("audit", (request.owner, request.auditor))
    if found is None:
        raise _NO_AUDIT.in_query()
    return apb.QueryProvidersResponse(providers=[found])


def all_audited(query: Query, request: Message) -> Message:
    """`AllProvidersAttributes` and `AuditorAttributes`, which ignores the auditor: the node decodes its
    stored list of attributes as the record of a provider, so that the owner has the last attribute's bytes.
    """
    found = [value for _, value in query.state.items("audit")]
    rows, pagination = sdk_page(found, request, _audit_key)
    shown = [AuditedProvider(owner=_last_attribute(row)) for row in rows]
    return apb.QueryProvidersResponse(providers=shown, pagination=pagination)


def _last_attribute(row: Message) -> str:
    encoded: bytes = row.attributes[-1].SerializeToString() if row.attributes else b""
    return encoded.decode(errors="replace")


def _audit_key(row: Message) -> bytes:
    owner, auditor = raw_address(row.owner) or b"", raw_address(row.auditor) or b""
    return b"".join((b"\1", bytes([len(owner)]), owner, bytes([len(auditor)]), auditor))


def discovery_info(chain_id: str) -> Message:
    """The node's information about itself and its API versions."""
    modules = [ModuleVersion(module=name, version=version) for name, version in _MODULES]
    versions = [VersionInfo(api_version=name, modules=modules) for name in ("v1beta4", "v1beta3")]
    client = ClientInfo(api_version="v1beta3")
    return Akash(client_info=client, supported_versions=versions, chain_id=chain_id, node_version=NODE_VERSION)


def discovery_json(chain_id: str) -> dict[str, Any]:
    """The same information in the JSON of the RPC method `akash`."""
    modules = [{"module": name, "version": version} for name, version in _MODULES]
    versions = [{"api_version": name, "modules": modules, "features": None} for name in ("v1beta4", "v1beta3")]
    info = {"client_info": {"api_version": "v1beta3"}, "supported_versions": versions, "chain_id": chain_id}
    return {**info, "node_version": NODE_VERSION, "min_client_version": ""}


def discovery(query: Query, request: Message) -> Message:
    return discovery_pb.GetInfoResponse(info=discovery_info(query.genesis.chain_id))
