"""What a decision about an order is made from, as it is at this moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from lease.ids import OrderId
from lease.resources import Attribute
from provider.inventory.snapshot import Snapshot
from provider.market.book import Market
from provider.market.decision import Audits, DecisionInputs
from provider.market.eligibility import MAX_AUDITORS, auditors_of
from provider.market.limits import deposit_reason
from provider.market.terms import Rules
from provider.protocols.chain import Order, ProviderRecord

__all__ = ["SignedBy", "current_inputs", "current_record", "declined_unchanged"]

SignedBy: TypeAlias = Callable[[str], Awaitable[tuple[Attribute, ...]]]


async def current_record(market: Market) -> ProviderRecord | None:
    """The provider's own record, queried again when it is older than `attributes_age`; None when this provider is not
    registered on the chain.
    """
    book, now = market.book, market.clock.now()
    if book.record is None or now - book.record_at >= market.attributes_age:
        book.record = await market.chain.provider(market.provider)
        book.record_at = now
    return book.record


async def current_inputs(
    market: Market, order: Order, record: ProviderRecord, *, signed_by: SignedBy | None = None
) -> tuple[DecisionInputs, object]:
    """The inputs of a decision about `order`, and the mark of the state they were taken from. Nothing is awaited after
    the free capacity was read. `signed_by` returns what an auditor has signed, by default through the market's cache.
    """
    audits = await _audits(order, signed_by or market.audits.signed_by)
    free, tenant = _free_now(market)[0], market.tenant_holdings(order.id)
    return DecisionInputs(order, record, free, _current_rules(market), audits, tenant), _mark(market, order.id)


def declined_unchanged(market: Market, order: OrderId) -> bool:
    """Whether `order` was declined and no input of that decision has changed since."""
    declined = market.book.declined.get(order)
    return declined is not None and declined.mark == _mark(market, order)


def _current_rules(market: Market) -> Rules:
    """The operator's rules with the tenant lists, the state of the wallet and the chain's parameters of now."""
    rules, params = market.rules, market.book.params
    if paused := market.paused() or deposit_reason(market.deposit, params):
        rules = replace(rules, paused=paused)
    if market.owners is not None and market.owners() != rules.owners:
        rules = replace(rules, owners=market.owners())
    if params is not None and rules.notice.window_s:
        least, most = params.min_reclamation_ns, params.max_reclamation_ns
        rules = replace(rules, notice=replace(rules.notice, least_ns=least, most_ns=most))
    return rules


async def _audits(order: Order, signed_by: SignedBy) -> Audits:
    auditors = auditors_of(order.spec)
    if len(auditors) > MAX_AUDITORS:
        return {}
    return {auditor: await signed_by(auditor) for auditor in auditors}


def _free_now(market: Market) -> tuple[Snapshot, int]:
    """The free capacity, and a number that grows with every change of it."""
    free, (seen, revision) = market.ledger.free(market.inventory()), market.book.free
    if free is not seen:
        market.book.free = (free, revision + 1)
    return free, market.book.free[1]


def _mark(market: Market, order: OrderId) -> object:
    """Two marks of an order are equal as long as no input of a decision about it has changed."""
    owners = market.owners() if market.owners is not None else None
    priced = market.pricing_mark() if market.pricing is not None else None
    chain = (market.book.record, market.book.params, market.audits.changes)
    return (_free_now(market)[1], chain, owners, priced, market.tenant_holdings(order), bool(market.paused()))
