"""Escrow as the chain keeps it (chain.md §6): what was true at the last settlement. Nothing changes per block; whoever
wants to know what is left now works it out (`provider.funds.escrow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from provider.protocols.chain import Lease

__all__ = ["Escrow", "EscrowState", "LeasePayment", "Payment"]


class EscrowState(IntEnum):
    OPEN = 1
    CLOSED = 2
    OVERDRAWN = 3


@dataclass(frozen=True, slots=True)
class Payment:
    """What a deployment pays for one lease: `rate` a block. `balance` is settled and not yet withdrawn, `unsettled` a
    debt, `withdrawn` all that was ever paid out; micro-units of the rate's denom.
    """

    lease: LeaseId
    state: EscrowState
    rate: Price
    balance: Decimal
    unsettled: Decimal
    withdrawn: Decimal


@dataclass(frozen=True, slots=True)
class LeasePayment:
    """A lease and what it is paid; None when the node tells of no payment."""

    lease: Lease
    payment: Payment | None


@dataclass(frozen=True, slots=True)
class Escrow:
    """The account of a deployment as of `settled_at` (height), with the rates of all its open payments, whosever."""

    deployment: DeploymentId
    state: EscrowState
    settled_at: int
    funds: Mapping[str, Decimal]
    rates: Sequence[Price]
