"""`akash.market.v1beta5.Query`."""

from __future__ import annotations

from typing import Any

import grpc
from akash.market.v1 import types_pb2 as v1
from akash.market.v1beta5 import query_pb2 as pb
from akash.market.v1beta5.types_pb2 import Bid, Order, Params
from cosmos.base.v1beta1.coin_pb2 import Coin

from devnet.chain import ids
from devnet.chain.errors import Kind, QueryRefused
from devnet.chain.genesis import MarketParams
from devnet.chain.keys import valid_address
from devnet.chain.query.paging import Page, Row, binary_key, page, states_of
from devnet.chain.query.view import Query
from devnet.chain.wire import Message

__all__ = ["bid", "bids", "lease", "leases", "order", "orders", "params"]

_NOT_FOUND = grpc.StatusCode.NOT_FOUND
_NO_ORDER = Kind("market", 15, "invalid order: order not found", _NOT_FOUND)
_NO_BID = Kind("market", 18, "invalid bid: bid not found", _NOT_FOUND)
_NO_LEASE = Kind("market", 20, "invalid lease: lease not found", _NOT_FOUND)
_FILTERS = ("owner", "dseq", "gseq", "oseq", "provider")
_BY_STATE, _BY_PROVIDER, _BY_OWNER = b"\x00", b"\x01", b"\x02"


def _row(value: Message) -> Row:
    owner, dseq, gseq, oseq, *provider = ids.key(value.id)
    parts: list[Any] = [owner, (dseq, 8), (gseq, 4), (oseq, 4)]
    if provider:
        parts += [provider[0], (0, 4)]
    return Row(binary_key(*parts), value.state, value)


def _fits(filters: Message, row: Row) -> bool:
    if getattr(filters, "bseq", 0):
        return False
    known = filters.DESCRIPTOR.fields_by_name
    wanted = [(name, getattr(filters, name)) for name in _FILTERS if name in known]
    return all(not value or getattr(row.value.id, name) == value for name, value in wanted)


def _page(query: Query, table: str, request: Message, states: list[int], *, path: bytes) -> Page:
    prefix = (request.filters.owner,) if request.filters.owner else ()
    rows = (_row(value) for _, value in query.state.items(table, prefix))
    by_state = path in (b"", _BY_STATE)
    return page(rows, request, states, accept=lambda row: _fits(request.filters, row), by_state=by_state, path=path)


def _bid_path(filters: Message) -> bytes:
    if filters.owner:
        return _BY_OWNER
    return _BY_PROVIDER if filters.provider else _BY_STATE


def orders(query: Query, request: Message) -> Message:
    states = states_of(Order.State, request.filters.state)
    found = _page(query, "order", request, states, path=b"\x01" if request.filters.owner else b"")
    return pb.QueryOrdersResponse(orders=[row.value for row in found.rows], pagination=_pagination(found))


def bids(query: Query, request: Message) -> Message:
    found = _page(query, "bid", request, states_of(Bid.State, request.filters.state), path=_bid_path(request.filters))
    rows = [_bid_response(query, row.value) for row in found.rows]
    return pb.QueryBidsResponse(bids=rows, pagination=_pagination(found))


def leases(query: Query, request: Message) -> Message:
    states = states_of(v1.Lease.State, request.filters.state)
    found = _page(query, "lease", request, states, path=_bid_path(request.filters))
    rows = [_lease_response(query, row.value) for row in found.rows]
    return pb.QueryLeasesResponse(leases=rows, pagination=_pagination(found))


def _pagination(found: Page) -> dict[str, Any]:
    return {"next_key": found.next_key, "total": len(found.rows)}


def _bid_response(query: Query, value: Message) -> Message:
    account = query.state.get("escrow_account", (2, ids.bid_xid(value.id)))
    return pb.QueryBidResponse(bid=value, escrow_account=account)


def _lease_response(query: Query, value: Message) -> Message:
    payment = query.state.get("escrow_payment", (ids.deployment_xid(value.id), ids.payment_xid(value.id)))
    return pb.QueryLeaseResponse(lease=value, escrow_payment=payment)


def order(query: Query, request: Message) -> Message:
    return pb.QueryOrderResponse(order=_single(query, "order", request.id, _NO_ORDER))


def bid(query: Query, request: Message) -> Message:
    return _bid_response(query, _single(query, "bid", request.id, _NO_BID))


def lease(query: Query, request: Message) -> Message:
    return _lease_response(query, _single(query, "lease", request.id, _NO_LEASE))


def _single(query: Query, table: str, wanted: Message, missing: Kind) -> Message:
    if not valid_address(wanted.owner):
        raise QueryRefused(grpc.StatusCode.INVALID_ARGUMENT, "invalid owner address")
    found = query.state.get(table, ids.key(wanted))
    if found is None:
        raise missing.in_query()
    return found


def params(query: Query, request: Message) -> Message:
    market: MarketParams = query.genesis.market
    result = Params(order_max_bids=market.order_max_bids)
    result.bid_min_deposit.CopyFrom(Coin(denom="uakt", amount=str(market.bid_min_deposits.get("uakt", 0))))
    for denom, amount in market.bid_min_deposits.items():
        result.bid_min_deposits.append(Coin(denom=denom, amount=str(amount)))
    result.min_reclamation_window.seconds = market.min_reclamation_window
    result.max_reclamation_window.seconds = market.max_reclamation_window
    return pb.QueryParamsResponse(params=result)
