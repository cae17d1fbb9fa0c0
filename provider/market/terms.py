"""On what terms we bid: what the operator set, and what we have to do with a tenant already."""

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
"""Auditor → what it signed for us."""


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """Who is served, and how much of us one tenant may hold. `allowed` None: everybody who is not `denied`. A limit of
    0 is none; `bids_an_hour` counts bids that became no lease.
    """

    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    open_bids: int = 0
    leases: int = 0
    bids_an_hour: int = 0


@dataclass(frozen=True, slots=True)
class TenantHoldings:
    """What one tenant holds of us: bids that are open, leases, and bids of the last hour that became no lease."""

    open_bids: int = 0
    leases: int = 0
    bids_lately: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """The reclamation window that bids offer, whole seconds; 0 offers none. The chain takes one between `least_ns` and
    `most_ns`. `premium`: percent that an order which asks for a window pays more.
    """

    window_s: int = 0
    least_ns: int = 0
    most_ns: int = 2**63 - 1
    premium: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator set, as far as deciding needs it. `order_filter`: an order must ask for these (bidding.md §1.4,
    row 2). `prices`: scales, or what another strategy has said of this very order. `denoms`: those that are bid in;
    empty: every one. `paused`: why nothing is bid on at the moment, empty when bids are made.
    """

    prices: ScalePrices | Quote
    overcommit: Overcommit = field(default_factory=Overcommit)
    order_filter: tuple[Attribute, ...] = ()
    owners: OwnerRules = OwnerRules()
    denoms: tuple[str, ...] = ()
    notice: Notice = Notice()
    paused: str = ""
