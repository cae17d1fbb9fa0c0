"""Questions about money: leases with what they are paid, the escrow of their deployments, balances of an account."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
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
from provider.chain.model import LeaseState
from provider.chain.money import Escrow, EscrowState, LeasePayment, Payment
from provider.chain.queries import ask, convert, lease_from_pb, pages

__all__ = ["balances", "escrows", "lease_payment", "lease_payments"]

_ACCOUNTS = "/akash.escrow.v1.Query/Accounts"
_PAYMENTS = "/akash.escrow.v1.Query/Payments"
_BALANCES = "/cosmos.bank.v1beta1.Query/AllBalances"
_LEASES = "/akash.market.v1beta5.Query/Leases"
_LEASE = "/akash.market.v1beta5.Query/Lease"
_SIDE_BY_SIDE = 8


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
    """The open accounts of these deployments; one that is not open is left out. Two lists an owner, however many
    deployments he has here: a filter is the beginning of a key (chain.md §5).
    """
    wanted = set(deployments)
    counts = Counter(item.owner for item in wanted)
    single = {item.owner: item for item in wanted if counts[item.owner] == 1}
    gate = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def of(owner: str) -> Mapping[DeploymentId, Escrow]:
        async with gate:
            return await _escrows_under(rpc, f"deployment/{single.get(owner, f'{owner}/')}")

    answers = await asyncio.gather(*(of(owner) for owner in sorted(counts)))
    return {item: escrow for answer in answers for item, escrow in answer.items() if item in wanted}


async def balances(rpc: Asked, address: str) -> Mapping[str, int]:
    """Denom to whole micro-units."""

    async def page(pagination: Any) -> Any:
        request = bank_query.QueryAllBalancesRequest(address=address, pagination=pagination)
        return (await ask(rpc, _BALANCES, request, bank_query.QueryAllBalancesResponse))[0]

    return {coin.denom: convert(rpc, int, coin.amount) for coin in await pages(rpc, page, "balances")}


async def _escrows_under(rpc: Asked, prefix: str) -> Mapping[DeploymentId, Escrow]:
    async def accounts(pagination: pagination_pb2.PageRequest) -> Any:
        request = escrow_query.QueryAccountsRequest(state="open", xid=prefix, pagination=pagination)
        return (await ask(rpc, _ACCOUNTS, request, escrow_query.QueryAccountsResponse))[0]

    async def payments(pagination: pagination_pb2.PageRequest) -> Any:
        request = escrow_query.QueryPaymentsRequest(state="open", xid=prefix, pagination=pagination)
        return (await ask(rpc, _PAYMENTS, request, escrow_query.QueryPaymentsResponse))[0]

    rates: defaultdict[DeploymentId, list[Price]] = defaultdict(list)
    for item in await pages(rpc, payments, "payments"):
        rates[convert(rpc, _deployment, item.id.aid)].append(convert(rpc, codec.price_from_pb, item.state.rate))
    found = [convert(rpc, _account, item) for item in await pages(rpc, accounts, "accounts")]
    return {item.deployment: _with_rates(item, rates[item.deployment]) for item in found}


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
