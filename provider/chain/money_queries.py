"""Queries about money: leases with their payments, the escrow of their deployments, balances of an account."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from akash.escrow.id.v1 import types_pb2 as id_pb
from akash.escrow.v1 import query_pb2 as escrow_query
from akash.market.v1 import query_pb2 as lease_query
from akash.market.v1beta5 import query_pb2 as market_query
from cosmos.bank.v1beta1 import query_pb2 as bank_query
from cosmos.base.query.v1beta1 import pagination_pb2

from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from provider.chain import codec
from provider.chain.connection import QueryClient
from provider.chain.queries import ask, convert, lease_from_pb, pages
from provider.protocols.chain import Escrow, EscrowState, LeasePayment, LeaseState, Payment

__all__ = ["balances", "escrows", "lease_payment", "lease_payments"]

_ACCOUNTS = "/akash.escrow.v1.Query/Accounts"
_PAYMENTS = "/akash.escrow.v1.Query/Payments"
_ALL_BALANCES = "/cosmos.bank.v1beta1.Query/AllBalances"
_BALANCE = "/cosmos.bank.v1beta1.Query/Balance"
_LEASES = "/akash.market.v1beta5.Query/Leases"
_LEASE = "/akash.market.v1beta5.Query/Lease"
_PARALLEL = 8
_FEW = 4
_PROPORTION = 10
"""An owner's accounts are read as a list up to so many open deployments per deployment that was asked for."""


async def lease_payments(rpc: QueryClient, *, address: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
    """All leases of a provider in these states, with their payments; by one query per state."""
    found: list[LeasePayment] = []
    for state in states:
        filters = lease_query.LeaseFilters(provider=address, state=state.name.lower())

        async def page(pagination: Any, filters: Any = filters) -> Any:
            request = market_query.QueryLeasesRequest(filters=filters, pagination=pagination)
            return (await ask(rpc, _LEASES, request, market_query.QueryLeasesResponse))[0]

        found += [convert(rpc, _lease_payment, item) for item in await pages(rpc, page, "leases")]
    return found


async def lease_payment(rpc: QueryClient, lease: LeaseId) -> LeasePayment | None:
    """One lease, ended or not, with its payment; None when the node does not know the lease."""
    request = market_query.QueryLeaseRequest(id=codec.lease_id_to_pb(lease))
    reply, _ = await ask(rpc, _LEASE, request, market_query.QueryLeaseResponse)
    return None if reply is None else convert(rpc, _lease_payment, reply)


async def escrows(rpc: QueryClient, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
    """The open escrow accounts of these deployments; an account that is not open is left out.

    The accounts of an owner with more than four deployments here are read in two lists, a filter being the beginning of
    a key (chain.md §5); those of other owners one by one. When an owner has many more deployments than were asked for,
    the lists are abandoned and his are read one by one too, so that no owner can make the provider read thousands.
    """
    by_owner: defaultdict[str, list[DeploymentId]] = defaultdict(list)
    for item in set(deployments):
        by_owner[item.owner].append(item)
    gate = asyncio.Semaphore(_PARALLEL)

    async def of(owner: str) -> Sequence[Escrow]:
        async with gate:
            requested = sorted(by_owner[owner])
            listed = await _all_of(rpc, owner, at_most=_PROPORTION * len(requested)) if len(requested) > _FEW else None
            if listed is not None:
                return [listed[item] for item in requested if item in listed]
            single = [await _escrow_of(rpc, item) for item in requested]
            return [item for item in single if item is not None]

    answers = await asyncio.gather(*(of(owner) for owner in sorted(by_owner)))
    return {escrow.deployment: escrow for answer in answers for escrow in answer}


async def balances(rpc: QueryClient, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
    """Denom to whole micro-units: of `denoms`, or of all that the account holds. Anybody can send an account any number
    of denoms, so callers name the denoms they need.
    """
    if denoms:
        return {denom: await _balance(rpc, address, denom) for denom in sorted(denoms)}

    async def page(pagination: Any) -> Any:
        request = bank_query.QueryAllBalancesRequest(address=address, pagination=pagination)
        return (await ask(rpc, _ALL_BALANCES, request, bank_query.QueryAllBalancesResponse))[0]

    return {coin.denom: convert(rpc, int, coin.amount) for coin in await pages(rpc, page, "balances")}


async def _balance(rpc: QueryClient, address: str, denom: str) -> int:
    request = bank_query.QueryBalanceRequest(address=address, denom=denom)
    reply, _ = await ask(rpc, _BALANCE, request, bank_query.QueryBalanceResponse)
    return 0 if reply is None else int(convert(rpc, int, reply.balance.amount or "0"))


async def _all_of(rpc: QueryClient, owner: str, *, at_most: int) -> Mapping[DeploymentId, Escrow] | None:
    """The open accounts of an owner; None when he has more than `at_most` (in whole pages) accounts or payments."""
    try:
        found = await _escrows_under(rpc, f"deployment/{owner}/", at_most=at_most)
    except _TooMany:
        return None
    return {item.deployment: item for item in found}


async def _escrow_of(rpc: QueryClient, item: DeploymentId) -> Escrow | None:
    """The account of one deployment. Of the accounts whose key begins with its key it is the first: `…/12` before
    `…/120`.
    """
    request = escrow_query.QueryAccountsRequest(
        state="open", xid=f"deployment/{item}", pagination=pagination_pb2.PageRequest(limit=1)
    )
    rates = await _rates_under(rpc, f"deployment/{item}/")
    reply, _ = await ask(rpc, _ACCOUNTS, request, escrow_query.QueryAccountsResponse)
    found = [convert(rpc, _account, one) for one in reply.accounts] if reply is not None else []
    return next((_with_rates(one, rates[item]) for one in found if one.deployment == item), None)


async def _escrows_under(rpc: QueryClient, prefix: str, *, at_most: int) -> Sequence[Escrow]:
    async def page(pagination: pagination_pb2.PageRequest) -> Any:
        request = escrow_query.QueryAccountsRequest(state="open", xid=prefix, pagination=pagination)
        return (await ask(rpc, _ACCOUNTS, request, escrow_query.QueryAccountsResponse))[0]

    rates = await _rates_under(rpc, prefix, at_most=at_most)
    listed = await pages(rpc, _within(page, at_most, "accounts"), "accounts")
    found = [convert(rpc, _account, item) for item in listed]
    return [_with_rates(item, rates[item.deployment]) for item in found]


async def _rates_under(rpc: QueryClient, prefix: str, *, at_most: int = 0) -> defaultdict[DeploymentId, list[Price]]:
    async def page(pagination: pagination_pb2.PageRequest) -> Any:
        request = escrow_query.QueryPaymentsRequest(state="open", xid=prefix, pagination=pagination)
        return (await ask(rpc, _PAYMENTS, request, escrow_query.QueryPaymentsResponse))[0]

    rates: defaultdict[DeploymentId, list[Price]] = defaultdict(list)
    for item in await pages(rpc, _within(page, at_most, "payments") if at_most else page, "payments"):
        rates[convert(rpc, _deployment, item.id.aid)].append(convert(rpc, codec.price_from_pb, item.state.rate))
    return rates


class _TooMany(Exception):
    pass


def _within(page: Callable[[Any], Awaitable[Any]], at_most: int, items: str) -> Callable[[Any], Awaitable[Any]]:
    """A reader of the same pages that raises `_TooMany` once it has read more than `at_most` items."""
    read = 0

    async def checked(pagination: Any) -> Any:
        nonlocal read
        if read > at_most:
            raise _TooMany
        reply = await page(pagination)
        read += len(getattr(reply, items)) if reply is not None else 0
        return reply

    return checked


def _with_rates(escrow: Escrow, rates: Sequence[Price]) -> Escrow:
    return Escrow(escrow.deployment, escrow.state, escrow.settled_at, escrow.funds, tuple(rates))


def _account(item: Any) -> Escrow:
    funds: defaultdict[str, Decimal] = defaultdict(Decimal)
    for one in item.state.funds:
        funds[one.denom] += codec.dec_from_wire(one.amount)
    return Escrow(_deployment(item.id), EscrowState(item.state.state), item.state.settled_at, dict(funds), ())


def _deployment(account: Any) -> DeploymentId:
    if account.scope != id_pb.Scope.deployment:
        raise ValueError(f"an account has scope {account.scope}, not deployment")
    owner, _, dseq = account.xid.partition("/")
    return DeploymentId(owner, int(dseq))


def _lease_payment(item: Any) -> LeasePayment:
    lease = lease_from_pb(item.lease)
    return LeasePayment(lease, _payment(lease.id, item.escrow_payment))


def _payment(lease: LeaseId, item: Any) -> Payment | None:
    state = item.state
    if not state.state:
        return None
    return Payment(
        lease=lease,
        state=EscrowState(state.state),
        rate=codec.price_from_pb(state.rate),
        balance=codec.dec_from_wire(state.balance.amount),
        unsettled=codec.dec_from_wire(state.unsettled.amount),
        withdrawn=Decimal(int(state.withdrawn.amount or 0)),
    )
