"""Questions about money: leases with what they are paid, the escrow of their deployments, balances of an account."""

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
from provider.chain.connection import Asked
from provider.chain.queries import ask, convert, lease_from_pb, pages
from provider.protocols.chain import Escrow, EscrowState, LeasePayment, LeaseState, Payment

__all__ = ["balances", "escrows", "lease_payment", "lease_payments"]

_ACCOUNTS = "/akash.escrow.v1.Query/Accounts"
_PAYMENTS = "/akash.escrow.v1.Query/Payments"
_ALL_BALANCES = "/cosmos.bank.v1beta1.Query/AllBalances"
_BALANCE = "/cosmos.bank.v1beta1.Query/Balance"
_LEASES = "/akash.market.v1beta5.Query/Leases"
_LEASE = "/akash.market.v1beta5.Query/Lease"
_SIDE_BY_SIDE = 8
_FEW = 4
_PROPORTION = 10
"""So many open deployments for each that is ours an owner may have and still be read as a list."""


async def lease_payments(rpc: Asked, *, address: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
    """All leases of a provider with their payments; one list a state."""
    found: list[LeasePayment] = []
    for state in states:
        filters = lease_query.LeaseFilters(provider=address, state=state.name.lower())

        async def page(pagination: Any, filters: Any = filters) -> Any:
            request = market_query.QueryLeasesRequest(filters=filters, pagination=pagination)
            return (await ask(rpc, _LEASES, request, market_query.QueryLeasesResponse))[0]

        found += [convert(rpc, _lease_payment, item) for item in await pages(rpc, page, "leases")]
    return found


async def lease_payment(rpc: Asked, lease: LeaseId) -> LeasePayment | None:
    """Of one lease, ended or not; None when the node does not know it."""
    request = market_query.QueryLeaseRequest(id=codec.lease_id_to_pb(lease))
    reply, _ = await ask(rpc, _LEASE, request, market_query.QueryLeaseResponse)
    return None if reply is None else convert(rpc, _lease_payment, reply)


async def escrows(rpc: Asked, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
    """The open accounts of these deployments; one that is not open is left out.

    Owners with many of them here are read in two lists each, a filter being the beginning of a key (chain.md §5);
    the others one by one. Nobody makes us read his thousands of deployments for the few that are ours: a list that is
    out of proportion is given up, and his are read one by one too.
    """
    by_owner: defaultdict[str, list[DeploymentId]] = defaultdict(list)
    for item in set(deployments):
        by_owner[item.owner].append(item)
    gate = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def of(owner: str) -> Sequence[Escrow]:
        async with gate:
            wanted = sorted(by_owner[owner])
            listed = await _all_of(rpc, owner, at_most=_PROPORTION * len(wanted)) if len(wanted) > _FEW else None
            if listed is not None:
                return [listed[item] for item in wanted if item in listed]
            single = [await _escrow_of(rpc, item) for item in wanted]
            return [item for item in single if item is not None]

    answers = await asyncio.gather(*(of(owner) for owner in sorted(by_owner)))
    return {escrow.deployment: escrow for answer in answers for escrow in answer}


async def balances(rpc: Asked, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
    """Denom to whole micro-units: of `denoms`, or of everything the account holds. Anybody can send an account any
    number of denoms, so who needs some asks for those.
    """
    if denoms:
        return {denom: await _balance(rpc, address, denom) for denom in sorted(denoms)}

    async def page(pagination: Any) -> Any:
        request = bank_query.QueryAllBalancesRequest(address=address, pagination=pagination)
        return (await ask(rpc, _ALL_BALANCES, request, bank_query.QueryAllBalancesResponse))[0]

    return {coin.denom: convert(rpc, int, coin.amount) for coin in await pages(rpc, page, "balances")}


async def _balance(rpc: Asked, address: str, denom: str) -> int:
    request = bank_query.QueryBalanceRequest(address=address, denom=denom)
    reply, _ = await ask(rpc, _BALANCE, request, bank_query.QueryBalanceResponse)
    return 0 if reply is None else int(convert(rpc, int, reply.balance.amount or "0"))


async def _all_of(rpc: Asked, owner: str, *, at_most: int) -> Mapping[DeploymentId, Escrow] | None:
    """None when the owner has more than `at_most` (whole pages) open accounts or payments."""
    try:
        found = await _escrows_under(rpc, f"deployment/{owner}/", at_most=at_most)
    except _TooMany:
        return None
    return {item.deployment: item for item in found}


async def _escrow_of(rpc: Asked, item: DeploymentId) -> Escrow | None:
    """Of the accounts whose key begins with this deployment's, its own is the first: `…/12` before `…/120`."""
    request = escrow_query.QueryAccountsRequest(
        state="open", xid=f"deployment/{item}", pagination=pagination_pb2.PageRequest(limit=1)
    )
    rates = await _rates_under(rpc, f"deployment/{item}/")
    reply, _ = await ask(rpc, _ACCOUNTS, request, escrow_query.QueryAccountsResponse)
    found = [convert(rpc, _account, one) for one in reply.accounts] if reply is not None else []
    return next((_with_rates(one, rates[item]) for one in found if one.deployment == item), None)


async def _escrows_under(rpc: Asked, prefix: str, *, at_most: int) -> Sequence[Escrow]:
    async def page(pagination: pagination_pb2.PageRequest) -> Any:
        request = escrow_query.QueryAccountsRequest(state="open", xid=prefix, pagination=pagination)
        return (await ask(rpc, _ACCOUNTS, request, escrow_query.QueryAccountsResponse))[0]

    rates = await _rates_under(rpc, prefix, at_most=at_most)
    listed = await pages(rpc, _within(page, at_most, "accounts"), "accounts")
    found = [convert(rpc, _account, item) for item in listed]
    return [_with_rates(item, rates[item.deployment]) for item in found]


async def _rates_under(rpc: Asked, prefix: str, *, at_most: int = 0) -> defaultdict[DeploymentId, list[Price]]:
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
    """The same pages, but `_TooMany` instead of the one after `at_most` items."""
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
        raise ValueError(f"an account of scope {account.scope} among those of deployments")
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
