"""Deciding: a pure function of what the chain says, what is free, what the operator set, and a price. Every reason
against is given, not the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TypeAlias

from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Price
from provider.errors import PricingError
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips
from provider.inventory.reservation import Reservation, Shortage
from provider.inventory.snapshot import Snapshot
from provider.market.eligibility import Check, eligibility
from provider.market.pricing.quote import Quote
from provider.market.pricing.scale import PriceLine, ScalePrices, maximum_price, price_lines, scale_price
from provider.market.terms import Audits, Rules, Tenant
from provider.protocols.chain import Order, ProviderRecord

__all__ = [
    "Audits",
    "Bid",
    "Decision",
    "DecisionInputs",
    "Declined",
    "Rules",
    "Tenant",
    "checked_decision",
    "decide",
    "lines_of",
]

_PLACES = Decimal("1e-18")


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """Everything that `decide` reads. `record`: this provider as it is registered. `snapshot`: the free capacity.
    `audits`: what the auditors that the order names have signed for this provider.
    """

    order: Order
    record: ProviderRecord
    snapshot: Snapshot
    rules: Rules
    audits: Audits
    tenant: Tenant = field(default_factory=Tenant)


@dataclass(frozen=True, slots=True)
class Bid:
    """Bid `price` per block for the whole group with `offer`, and hold `reservation`. `reclamation_s`: the notice
    that is offered, 0 for none.
    """

    price: Price
    offer: tuple[ResourceUnit, ...]
    reservation: Reservation
    reclamation_s: int = 0


@dataclass(frozen=True, slots=True)
class Declined:
    """Every reason, in short. What each node lacks is told by `provider.market.explain`."""

    reasons: tuple[str, ...]


Decision: TypeAlias = Bid | Declined


def decide(inputs: DecisionInputs) -> Decision:
    """The decision about the order. The same inputs give the same decision."""
    return checked_decision(inputs)[0]


def checked_decision(inputs: DecisionInputs) -> tuple[Decision, list[Check]]:
    """The decision, with every check that led to it. The placement is not searched for a tenant who is not served, for
    a wallet that cannot pay, or for a group that is invalid or too large.
    """
    order, rules, snapshot = inputs.order, inputs.rules, inputs.snapshot
    checks = eligibility(order, inputs.record, rules=rules, audits=inputs.audits, tenant=inputs.tenant)
    if any(not check.passed for check in checks if check.name in ("wallet", "tenant", "size", "group")):
        return Declined(_reasons(checks)), checks
    found = place(order.id, order.spec, snapshot=snapshot, overcommit=rules.overcommit)
    price, why = _price(order, rules)
    checks += [
        Check("room", found.reasons if isinstance(found, Shortage) else ()),
        Check("leased IPs", tuple(_address_reasons(order.spec, snapshot))),
        Check("price", why),
    ]
    reasons = _reasons(checks)
    if price is None and not reasons:
        reasons = ("no strategy was asked for a price",)
    if reasons or price is None or isinstance(found, Shortage):
        return Declined(reasons), checks
    return Bid(price, found.offer, found, rules.notice.window_s), checks


def _reasons(checks: list[Check]) -> tuple[str, ...]:
    return tuple(reason for check in checks for reason in check.reasons)


def _address_reasons(spec: GroupSpec, snapshot: Snapshot) -> Iterator[str]:
    wanted = leased_ips(spec)
    if wanted > snapshot.free_addresses:
        yield f"{wanted} leased IPs are asked for, {snapshot.free_addresses} are free (LESSOR_IP_RANGES)"


def lines_of(spec: GroupSpec, prices: ScalePrices | Quote) -> tuple[PriceLine, ...]:
    """The price line by line; none where the strategy tells a sum only. Raises `PricingError` as `price_lines`."""
    return prices.lines if isinstance(prices, Quote) else price_lines(spec, prices)


def _price(order: Order, rules: Rules) -> tuple[Price | None, tuple[str, ...]]:
    """Equal to the maximum is allowed (bidding.md §1.5). Neither a price nor a reason: nobody was asked."""
    prices, spec = rules.prices, order.spec
    try:
        price = prices.price if isinstance(prices, Quote) else scale_price(spec, prices)
    except PricingError as error:
        return None, (str(error),)
    if price is None:
        return None, ((prices.problem,) if isinstance(prices, Quote) and prices.problem else ())
    most = maximum_price(spec)
    if price.denom != most.denom:
        return None, (f"our price is in {price.denom}, the order's in {most.denom}",)
    price = _with_premium(price, order, rules.notice.premium)
    if price.amount > most.amount:
        return None, (
            f"our price {price.amount:f}{price.denom} is above the order's maximum {most.amount:f}{most.denom}",
        )
    return price, ()


def _with_premium(price: Price, order: Order, premium: Decimal) -> Price:
    """An order that asks for notice pays for it; whole at 18 decimals, as all prices are."""
    if order.reclamation_ns is None or not premium:
        return price
    with localcontext(prec=120):
        amount = (price.amount * (100 + premium) / 100).quantize(_PLACES, rounding=ROUND_HALF_UP)
    return Price(price.denom, amount.normalize())
