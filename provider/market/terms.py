"""The terms of bids: the operator's rules, and what a tenant holds already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from lease.resources import Attribute
from provider.inventory.capacity import Overcommit
from provider.market.pricing.quote import Quote
from provider.market.pricing.scale import ScalePrices

__all__ = ["Audits", "Notice", "OwnerRules", "Rules", "TenantHoldings"]

Audits: TypeAlias = Mapping[str, tuple[Attribute, ...]]
"""Auditor → the attributes that it has signed for this provider."""


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """Which tenants are served, and the limits of one tenant. `allowed` None: every tenant who is not in `denied`. 0 is
    no limit. `bids_an_hour` counts bids that did not become leases.
    """

    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    open_bids: int = 0
    leases: int = 0
    bids_an_hour: int = 0


@dataclass(frozen=True, slots=True)
class TenantHoldings:
    """What one tenant holds: open bids, leases, and bids of the last hour that did not become leases."""

    open_bids: int = 0
    leases: int = 0
    bids_lately: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """The reclamation window that bids offer, in whole seconds; 0 for none. The chain takes windows from `least_ns` to
    `most_ns`. `premium`: percent that an order which asks for a window pays more.
    """

    window_s: int = 0
    least_ns: int = 0
    most_ns: int = 2**63 - 1
    premium: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator has set about bids. `prices`: the scales, or another strategy's quote for this very order.
    `order_filter`: attributes that an order must require (bidding.md §1.4, row 2). `denoms`: the denoms of bids, empty
    for all. `paused`: why no bids are made at the moment, empty while they are made. `node_ports`: the most of one
    order.
    """

    prices: ScalePrices | Quote
    overcommit: Overcommit = field(default_factory=Overcommit)
    order_filter: tuple[Attribute, ...] = ()
    owners: OwnerRules = OwnerRules()
    denoms: tuple[str, ...] = ()
    notice: Notice = Notice()
    paused: str = ""
    node_ports: int = 250
