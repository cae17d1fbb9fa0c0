"""The provider's queries, each one gRPC method over `abci_query` (chain.md §5, §7). A list is read through its last
page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from akash.audit.v1 import query_pb2 as audit_query
from akash.cert.v1 import query_pb2 as cert_query
from akash.deployment.v1beta4 import query_pb2 as deployment_query
from akash.market.v1 import query_pb2 as lease_query
from akash.market.v1beta5 import query_pb2 as market_query
from akash.provider.v1beta4 import query_pb2 as provider_query
from cosmos.auth.v1beta1 import query_pb2 as auth_query
from cosmos.base.query.v1beta1 import pagination_pb2
from cosmos.crypto.secp256k1 import keys_pb2
from google.protobuf.message import DecodeError

from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute, Price
from provider.chain import codec
from provider.chain.accounts import base_account
from provider.chain.connection import AbciAnswer, QueryClient, QueryError
from provider.chain.group_size import MOST_UNITS
from provider.errors import ChainError
from provider.protocols.chain import (
    Account,
    Bid,
    BidState,
    CertificateState,
    Deployment,
    DeploymentState,
    Lease,
    LeaseState,
    MarketParams,
    Order,
    OrderState,
    ProviderRecord,
    PublishedCertificate,
)  # fmt: skip

__all__ = [
    "account", "ask", "audited_attributes", "bid", "bidders", "bids", "certificate", "certificate_state",
    "convert", "deployment", "group", "lease",
    "lease_from_pb", "leases", "market_params", "open_orders", "order", "pages", "provider",
]  # fmt: skip

_MARKET = "/akash.market.v1beta5.Query/"
_DEPLOYMENT = "/akash.deployment.v1beta4.Query/"
_NOT_FOUND = 22
_PAGE = 500
_MAX_PAGES = 2000
"""A node with more pages than these is broken or hostile."""


async def ask(rpc: QueryClient, path: str, request: Any, reply: type[Any]) -> tuple[Any, int]:
    """The decoded reply and its height; (None, height) when the node answers "not found"."""
    try:
        answer: AbciAnswer = await rpc.query(path, request.SerializeToString())
    except QueryError as refusal:
        if refusal.code == _NOT_FOUND and refusal.codespace == "sdk":
            return None, 0
        raise
    try:
        return reply.FromString(answer.value), answer.height
    except DecodeError as error:
        raise ChainError(rpc.address, f"query {path}: the reply is not a {reply.DESCRIPTOR.full_name}") from error


async def order(rpc: QueryClient, item: OrderId) -> Order | None:
    request = market_query.QueryOrderRequest(id=codec.order_id_to_pb(item))
    reply, _ = await ask(rpc, _MARKET + "Order", request, market_query.QueryOrderResponse)
    return None if reply is None else convert(rpc, _order, reply.order)


async def open_orders(rpc: QueryClient) -> Sequence[Order]:
    """All open orders. A malformed order is left out, so that it does not hide the others."""
    filters = market_query.OrderFilters(state="open")

    async def page(pagination: Any) -> Any:
        request = market_query.QueryOrdersRequest(filters=filters, pagination=pagination)
        return (await ask(rpc, _MARKET + "Orders", request, market_query.QueryOrdersResponse))[0]

    listed = await pages(rpc, page, "orders")
    return await asyncio.to_thread(lambda: [found for item in listed if (found := _order_or_none(item)) is not None])


async def group(rpc: QueryClient, item: GroupId) -> Any:
    """The `GroupSpec`, None when there is no such group."""
    request = deployment_query.QueryGroupRequest(id=codec.group_id_to_pb(item))
    reply, _ = await ask(rpc, _DEPLOYMENT + "Group", request, deployment_query.QueryGroupResponse)
    if reply is None:
        return None
    spec = reply.group.group_spec
    return await _converted(rpc, codec.group_from_pb, spec, units=len(spec.resources))


async def deployment(rpc: QueryClient, item: DeploymentId) -> Deployment | None:
    request = deployment_query.QueryDeploymentRequest(id=codec.deployment_id_to_pb(item))
    reply, _ = await ask(rpc, _DEPLOYMENT + "Deployment", request, deployment_query.QueryDeploymentResponse)
    if reply is None:
        return None
    units = sum(len(item.group_spec.resources) for item in reply.groups)
    found: Deployment = await _converted(rpc, _deployment, reply, units=units)
    return found


async def bid(rpc: QueryClient, item: LeaseId) -> Bid | None:
    request = market_query.QueryBidRequest(id=codec.bid_id_to_pb(item))
    reply, _ = await ask(rpc, _MARKET + "Bid", request, market_query.QueryBidResponse)
    return None if reply is None else convert(rpc, _bid, reply)


async def bids(rpc: QueryClient, address: str, state: BidState) -> Sequence[Bid]:
    filters = market_query.BidFilters(provider=address, state=state.name.lower())

    async def page(pagination: Any) -> Any:
        request = market_query.QueryBidsRequest(filters=filters, pagination=pagination)
        return (await ask(rpc, _MARKET + "Bids", request, market_query.QueryBidsResponse))[0]

    return [convert(rpc, _bid, item) for item in await pages(rpc, page, "bids")]


async def bidders(rpc: QueryClient, item: OrderId) -> Mapping[str, BidState]:
    """Every provider that ever bid on the order, with the state of its bid. Without a state in the filter the node goes
    through all of them (chain.md §5). The contents of other providers' bids are not read.
    """
    filters = market_query.BidFilters(owner=item.owner, dseq=item.dseq, gseq=item.gseq, oseq=item.oseq)

    async def page(pagination: Any) -> Any:
        request = market_query.QueryBidsRequest(filters=filters, pagination=pagination)
        return (await ask(rpc, _MARKET + "Bids", request, market_query.QueryBidsResponse))[0]

    found = [each.bid for each in await pages(rpc, page, "bids")]
    return {each.id.provider: convert(rpc, BidState, each.state) for each in found if _is_of(each.id, item)}


def _is_of(bid: Any, order: OrderId) -> bool:
    return (bid.owner, bid.dseq, bid.gseq, bid.oseq) == (order.owner, order.dseq, order.gseq, order.oseq)


async def lease(rpc: QueryClient, item: LeaseId) -> tuple[Lease | None, int]:
    """The lease and the height it was read at (0 when the node gave none, as with "not found")."""
    request = market_query.QueryLeaseRequest(id=codec.lease_id_to_pb(item))
    reply, height = await ask(rpc, _MARKET + "Lease", request, market_query.QueryLeaseResponse)
    return (None if reply is None else convert(rpc, lease_from_pb, reply.lease)), height


async def leases(
    rpc: QueryClient, *, address: str, states: Sequence[LeaseState], of: DeploymentId | None
) -> Sequence[Lease]:
    """The leases of a provider, by one query per state: a filter names one (chain.md §3: `active` excludes
    `reclaiming`).
    """
    found: list[Lease] = []
    for state in states:
        owner, dseq = (of.owner, of.dseq) if of else ("", 0)
        filters = lease_query.LeaseFilters(provider=address, state=state.name.lower(), owner=owner, dseq=dseq)

        async def page(pagination: Any, filters: Any = filters) -> Any:
            request = market_query.QueryLeasesRequest(filters=filters, pagination=pagination)
            return (await ask(rpc, _MARKET + "Leases", request, market_query.QueryLeasesResponse))[0]

        found += [convert(rpc, lease_from_pb, item.lease) for item in await pages(rpc, page, "leases")]
    return found


async def provider(rpc: QueryClient, address: str) -> ProviderRecord | None:
    request = provider_query.QueryProviderRequest(owner=address)
    path = "/akash.provider.v1beta4.Query/Provider"
    try:
        reply, _ = await ask(rpc, path, request, provider_query.QueryProviderResponse)
    except QueryError as refusal:
        if "address not found" in refusal.log:
            return None
        raise
    if reply is None:
        return None
    return ProviderRecord(
        reply.provider.owner, reply.provider.host_uri, codec.attributes_from_pb(reply.provider.attributes)
    )


async def audited_attributes(rpc: QueryClient, *, owner: str, auditor: str) -> tuple[Attribute, ...]:
    """The attributes that `auditor` signed for provider `owner`, empty when there are none (bidding.md §3.3).

    Tenants may name any text as an auditor and the chain accepts it; a text that is not an address has signed nothing.
    """
    request = audit_query.QueryProviderAuditorRequest(owner=owner, auditor=auditor)
    path = "/akash.audit.v1.Query/ProviderAuditorAttributes"
    try:
        reply, _ = await ask(rpc, path, request, audit_query.QueryProvidersResponse)
    except QueryError as refusal:
        if "address not found" in refusal.log or "invalid address" in refusal.log:
            return ()
        raise
    return (
        ()
        if reply is None
        else tuple(item for one in reply.providers for item in codec.attributes_from_pb(one.attributes))
    )


async def certificate_state(rpc: QueryClient, owner: str, serial: int) -> CertificateState:
    """The state of the account certificate of `owner` with this serial."""
    found = await certificate(rpc, owner, serial)
    return CertificateState.ABSENT if found is None else found.state


async def certificate(rpc: QueryClient, owner: str, serial: int) -> PublishedCertificate | None:
    """The account certificate of `owner` with this serial."""
    request = cert_query.QueryCertificatesRequest()
    request.filter.owner, request.filter.serial = owner, str(serial)
    reply, _ = await ask(rpc, "/akash.cert.v1.Query/Certificates", request, cert_query.QueryCertificatesResponse)
    found = [item.certificate for item in reply.certificates if item.serial == str(serial)] if reply else []
    if not found:
        return None
    return PublishedCertificate(convert(rpc, CertificateState, found[0].state), found[0].cert, found[0].pubkey)


async def market_params(rpc: QueryClient) -> MarketParams:
    reply, _ = await ask(rpc, _MARKET + "Params", market_query.QueryParamsRequest(), market_query.QueryParamsResponse)
    if reply is None:
        raise ChainError(rpc.address, "the market has no parameters")
    deposits = {coin.denom: convert(rpc, int, coin.amount) for coin in reply.params.bid_min_deposits}
    return MarketParams(
        bid_min_deposits=deposits,
        order_max_bids=reply.params.order_max_bids,
        min_reclamation_ns=_ns(reply.params.min_reclamation_window),
        max_reclamation_ns=_ns(reply.params.max_reclamation_window),
    )


async def account(rpc: QueryClient, address: str) -> Account | None:
    """Number, sequence and public key, of vesting and module accounts too. Raises `ChainError` for any other kind."""
    request = auth_query.QueryAccountRequest(address=address)
    reply, _ = await ask(rpc, "/cosmos.auth.v1beta1.Query/Account", request, auth_query.QueryAccountResponse)
    if reply is None:
        return None
    base = base_account(reply.account)
    if base is None:
        raise ChainError(rpc.address, f"account {address} is a {reply.account.type_url}, which holds no base account")
    return Account(number=base.account_number, sequence=base.sequence, public_key=_public_key(base.pub_key))


def _public_key(item: Any) -> bytes | None:
    key = keys_pb2.PubKey()
    return key.key if item.Unpack(key) and len(key.key) == 33 else None


async def pages(rpc: QueryClient, page: Callable[[Any], Awaitable[Any]], items: str) -> list[Any]:
    """All items. Every page needs the same filters (chain.md §5); a repeated key would never end."""
    found: list[Any] = []
    key = b""
    for _ in range(_MAX_PAGES):
        reply = await page(pagination_pb2.PageRequest(key=key, limit=_PAGE))
        if reply is None:
            return found
        found += getattr(reply, items)
        if not reply.pagination.next_key:
            return found
        if reply.pagination.next_key == key:
            raise ChainError(rpc.address, f"the list of {items} repeats its page key")
        key = reply.pagination.next_key
    raise ChainError(rpc.address, f"the list of {items} has more than {_MAX_PAGES} pages of {_PAGE}")


def convert(rpc: QueryClient, make: Callable[[Any], Any], item: Any) -> Any:
    try:
        return make(item)
    except (ValueError, ArithmeticError) as error:
        raise ChainError(rpc.address, f"the reply holds an impossible value: {error}") from error


async def _converted(rpc: QueryClient, make: Callable[[Any], Any], item: Any, *, units: int) -> Any:
    """As `convert`, in a thread when there are many units: leases of such groups exist and are converted whole."""
    if units > MOST_UNITS:
        return await asyncio.to_thread(convert, rpc, make, item)
    return convert(rpc, make, item)


def _order_or_none(item: Any) -> Order | None:
    try:
        return _order(item)
    except (ValueError, ArithmeticError):
        return None


def _order(item: Any) -> Order:
    return Order(
        id=codec.order_id_from_pb(item.id),
        state=OrderState(item.state),
        spec=codec.counted_group_from_pb(item.spec),
        created_at=item.created_at,
        reclamation_ns=_ns(item.reclamation.min_window) if item.HasField("reclamation") else None,
    )


def _bid(item: Any) -> Bid:
    bid = item.bid
    return Bid(
        id=codec.lease_id_from_pb(bid.id),
        state=BidState(bid.state),
        price=codec.price_from_pb(bid.price),
        created_at=bid.created_at,
        deposit=_deposit(item.escrow_account),
    )


def _deposit(account: Any) -> tuple[Price, ...]:
    """The deposits of a bid; empty when they cannot be read: only the status output needs them."""
    try:
        held = tuple(Price(one.denom, codec.dec_from_wire(one.amount)) for one in account.state.funds)
    except ValueError:
        return ()
    return tuple(one for one in held if one.amount > 0)


def lease_from_pb(item: Any) -> Lease:
    return Lease(
        id=codec.lease_id_from_pb(item.id),
        state=LeaseState(item.state),
        price=codec.price_from_pb(item.price),
        created_at=item.created_at,
        closed_on=item.closed_on,
        close_reason=int(item.reason),
        reclamation_ns=_ns(item.reclamation.window) if item.HasField("reclamation") else None,
        reclaim_deadline=item.reclamation.deadline,
        reclaim_reason=int(item.reclamation.reason),
        reclaim_started=item.reclamation.started_at,
    )


def _ns(duration: Any) -> int:
    return int(duration.seconds) * 10**9 + int(duration.nanos)


def _deployment(reply: Any) -> Deployment:
    return Deployment(
        id=DeploymentId(reply.deployment.id.owner, reply.deployment.id.dseq),
        state=DeploymentState(reply.deployment.state),
        hash=reply.deployment.hash,
        groups=tuple(
            codec.group_from_pb(item.group_spec) for item in sorted(reply.groups, key=lambda one: one.id.gseq)
        ),
    )
