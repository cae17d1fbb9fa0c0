"""`decide`: the pure function from an order, the free capacity, the operator's rules and a price to a decision. A
declined order gets every reason against a bid, not only the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lease.groups import GroupSpec, ResourceUnit
from lease.resources import Price
from provider.inventory.matcher import place
from provider.inventory.needs import leased_ips, node_ports
from provider.inventory.reservation import Reservation, Shortage
from provider.inventory.snapshot import Snapshot
from provider.market.eligibility import Check, eligibility
from provider.market.pricing.bid_price import bid_price
from provider.market.terms import Audits, Rules, TenantHoldings
from provider.protocols.chain import Order, ProviderRecord

__all__ = [
    "Audits",
    "BidDecision",
    "Decision",
    "DecisionInputs",
    "Declined",
    "Rules",
    "TenantHoldings",
    "checked_decision",
    "decide",
]


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
    tenant: TenantHoldings = field(default_factory=TenantHoldings)


@dataclass(frozen=True, slots=True)
class BidDecision:
    """Bid `price` per block for the whole group, with `offer`, and keep `reservation`. `reclamation_s`: the reclamation
    window that the bid offers, 0 for none.
    """

    price: Price
    offer: tuple[ResourceUnit, ...]
    reservation: Reservation
    reclamation_s: int = 0


@dataclass(frozen=True, slots=True)
class Declined:
    """Every reason, in short. `provider.market.explanation` says what each node lacks. `failed`: for the names of the
    checks that failed the first reason of each, in the order of the checks.
    """

    reasons: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict, compare=False)


Decision: TypeAlias = BidDecision | Declined


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
        return Declined(_reasons(checks), _failed(checks)), checks
    found = place(order.id, order.spec, snapshot=snapshot, overcommit=rules.overcommit)
    price, why = bid_price(order, rules.prices, notice_premium=rules.notice.premium)
    checks += [
        Check("capacity", found.reasons if isinstance(found, Shortage) else ()),
        Check("leased IPs", tuple(_address_reasons(order.spec, snapshot))),
        Check("node ports", tuple(_node_port_reasons(order.spec, snapshot, most=rules.node_ports))),
        Check("price", why),
    ]
    reasons = _reasons(checks)
    if price is None and not reasons:
        checks.append(Check("price", ("the price strategy was not asked",)))
        reasons = _reasons(checks)
    if reasons or price is None or isinstance(found, Shortage):
        return Declined(reasons, _failed(checks)), checks
    return BidDecision(price, found.offer, found, rules.notice.window_s), checks


def _reasons(checks: list[Check]) -> tuple[str, ...]:
    return tuple(reason for check in checks for reason in check.reasons)


def _failed(checks: list[Check]) -> Mapping[str, str]:
    return {check.name: check.reasons[0] for check in checks if not check.passed}


def _address_reasons(spec: GroupSpec, snapshot: Snapshot) -> Iterator[str]:
    wanted = leased_ips(spec)
    if wanted > snapshot.free_addresses:
        pools = "".join(f"; MetalLB's pool {name} holds {held} of them" for name, held in snapshot.pooled.items())
        yield f"the order asks for {wanted} leased IPs, {snapshot.free_addresses} are free (LESSOR_IP_RANGES{pools})"


def _node_port_reasons(spec: GroupSpec, snapshot: Snapshot, *, most: int) -> Iterator[str]:
    """A cluster has a few thousand node ports in all, and an endpoint costs next to nothing."""
    wanted = node_ports(spec)
    if wanted > most:
        yield f"the order asks for {wanted} node ports, at most {most} are allowed (LESSOR_ORDER_NODE_PORTS)"
    if wanted > snapshot.free_node_ports:
        yield (
            f"the order asks for {wanted} node ports, {snapshot.free_node_ports} are free (LESSOR_NODE_PORT_RANGE less "
            "those that are taken or reserved)"
        )
