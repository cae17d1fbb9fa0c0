"""Deciding: a pure function of (order, provider record, audits, snapshot, rules). Every reason against is given, not
the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lease.attributes import has_capabilities, subset
from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Attribute, Price
from lease.validation import group_problems
from provider.chain.model import Order, OrderState, ProviderRecord
from provider.errors import PricingError
from provider.inventory.capacity import Overcommit
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips
from provider.inventory.reservation import Reservation, Shortage
from provider.inventory.snapshot import Snapshot
from provider.market.pricing import PriceLine, ScalePrices, maximum_price, price_lines, scale_price
from provider.market.quote import Quote

__all__ = ["Audits", "Bid", "Decision", "Declined", "Rules", "decide", "lines_of"]

Audits: TypeAlias = Mapping[str, tuple[Attribute, ...]]
"""Auditor → what it signed for us."""

_MAX_VOLUMES = 4
"""Storage entries a unit may have (bidding.md §1.4, row 5)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator set, as far as deciding needs it. `order_filter`: an order must ask for these (bidding.md
    §1.4, row 2). `prices`: scales, or what another strategy has said of this very order.
    """

    prices: ScalePrices | Quote
    overcommit: Overcommit = field(default_factory=Overcommit)
    order_filter: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Bid:
    """Bid `price` per block for the whole group with `offer`, and hold `reservation`."""

    price: Price
    offer: tuple[ResourceUnit, ...]
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Declined:
    """Every reason; `nodes`: what each node lacks, where capacity is one of them."""

    reasons: tuple[str, ...]
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Decision: TypeAlias = Bid | Declined


def decide(order: Order, record: ProviderRecord, *, snapshot: Snapshot, rules: Rules, audits: Audits) -> Decision:
    """Same inputs, same decision. `audits` holds what the auditors that the order names have signed for us."""
    problems = [str(problem) for problem in group_problems((order.spec,))]
    reasons = [*_eligibility(order, record, rules, audits), *(f"not a valid group: {text}" for text in problems)]
    if problems:
        return Declined(tuple(reasons))
    found = place(order.id, order.spec, snapshot=snapshot, overcommit=rules.overcommit)
    if isinstance(found, Shortage):
        reasons += found.reasons
    reasons += _address_reasons(order.spec, snapshot)
    price, why = _price(order.spec, rules.prices)
    reasons += why
    if price is None and not reasons:
        reasons = ["no strategy was asked for a price"]
    if reasons or price is None or isinstance(found, Shortage):
        return Declined(tuple(reasons), found.nodes if isinstance(found, Shortage) else {})
    return Bid(price=price, offer=found.offer, reservation=found)


def _eligibility(order: Order, record: ProviderRecord, rules: Rules, audits: Audits) -> Iterator[str]:
    """bidding.md §1.4, and what the chain would refuse (§1.5)."""
    requirements = order.spec.requirements
    wanted = requirements.attributes or ()
    if order.state is not OrderState.OPEN:
        yield f"the order is {order.state.name.lower()}"
    if order.id.owner == record.owner:
        yield "the tenant is this provider's own account"
    yield from _missing_attributes(wanted, record.attributes)
    if not subset(rules.order_filter, wanted):
        filters = ", ".join(f"{item.key}={item.value}" for item in rules.order_filter)
        yield f"the order does not ask for what this provider's configuration filters by: {filters}"
    for unit in order.spec.units:
        yield from _unit_reasons(unit, record)
    yield from _signature_reasons(order.spec, record, audits)


def _missing_attributes(wanted: tuple[Attribute, ...], offered: tuple[Attribute, ...]) -> Iterator[str]:
    for item in wanted:
        if not subset((item,), offered):
            yield f"the order requires attribute {item.key}={item.value}, which the provider does not have"


def _unit_reasons(unit: ResourceUnit, record: ProviderRecord) -> Iterator[str]:
    resources = unit.resources
    if len(resources.storage or ()) > _MAX_VOLUMES:
        yield f"unit {resources.id}: {len(resources.storage or ())} volumes, at most {_MAX_VOLUMES} are served"
    if not has_capabilities(resources, record.attributes):
        yield f"unit {resources.id}: the provider's attributes do not promise the storage or GPU it asks for"


def _signature_reasons(spec: GroupSpec, record: ProviderRecord, audits: Audits) -> Iterator[str]:
    """Each auditor of all_of, and one of any_of, must have signed what the order requires (bidding.md §3.3)."""
    signed_by, wanted = spec.requirements.signed_by, spec.requirements.attributes or ()

    def signed(auditor: str) -> bool:
        found = audits.get(auditor, ())
        return bool(found) and subset(wanted, found)

    for auditor in signed_by.all_of or ():
        if not signed(auditor):
            yield f"auditor {auditor} has not signed the required attributes for {record.owner}"
    if signed_by.any_of and not any(signed(auditor) for auditor in signed_by.any_of):
        yield f"none of the auditors {', '.join(signed_by.any_of)} has signed the required attributes"


def _address_reasons(spec: GroupSpec, snapshot: Snapshot) -> Iterator[str]:
    wanted = leased_ips(spec)
    if wanted > snapshot.free_addresses:
        yield f"{wanted} leased IPs are asked for, {snapshot.free_addresses} are free (LESSOR_IP_RANGES)"


def lines_of(spec: GroupSpec, prices: ScalePrices | Quote) -> tuple[PriceLine, ...]:
    """The price line by line; none where the strategy tells a sum only. Raises `PricingError` as `price_lines`."""
    return prices.lines if isinstance(prices, Quote) else price_lines(spec, prices)


def _price(spec: GroupSpec, prices: ScalePrices | Quote) -> tuple[Price | None, tuple[str, ...]]:
    """Equal to the maximum is allowed (bidding.md §1.5). Neither a price nor a reason: nobody was asked."""
    try:
        price = prices.price if isinstance(prices, Quote) else scale_price(spec, prices)
    except PricingError as error:
        return None, (str(error),)
    if price is None:
        return None, ((prices.problem,) if isinstance(prices, Quote) and prices.problem else ())
    most = maximum_price(spec)
    if price.denom != most.denom:
        return None, (f"our price is in {price.denom}, the order's in {most.denom}",)
    if price.amount > most.amount:
        return None, (
            f"our price {price.amount:f}{price.denom} is above the order's maximum {most.amount:f}{most.denom}",
        )
    return price, ()
