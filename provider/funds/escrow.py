"""Arithmetic of escrow (chain.md §6): pure, in exact decimals, from what the chain settled last to what is true at a
height.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from lease.resources import Price
from provider.chain.money import Escrow, EscrowState, Payment

__all__ = ["LeaseFunds", "lease_funds", "runs_out_at"]


@dataclass(frozen=True, slots=True)
class LeaseFunds:
    """One lease's money at `height`. `unpaid`: earned and not yet withdrawn; `earned`: all it ever earned, both in
    micro-units of the rate's denom. `runs_out_at`: first height at which the next block cannot be paid, None when the
    account is not drawn on.
    """

    payment: Payment
    height: int
    unpaid: Decimal
    earned: Decimal
    runs_out_at: int | None

    @property
    def out(self) -> bool:
        return self.runs_out_at is not None and self.height >= self.runs_out_at


def runs_out_at(escrow: Escrow) -> int | None:
    """From the height this gives on, a settlement in the next block finds too little (bidding.md §5: fewer than one
    whole block left). All rates of the deployment count, in whichever denom; a denom without a rate never runs out,
    so an account nobody draws on gives None rather than a division by zero.
    """
    heights = [
        escrow.settled_at + _whole_blocks(escrow.funds.get(denom, Decimal(0)), rate)
        for denom, rate in _rates(escrow.rates).items()
        if rate > 0
    ]
    return min(heights, default=None)


def lease_funds(payment: Payment, escrow: Escrow | None, *, height: int) -> LeaseFunds:
    """`escrow` None: its account is not open (any more), so nothing accrues but what was settled."""
    ends = runs_out_at(escrow) if escrow is not None else None
    accrued = Decimal(0)
    if escrow is not None and payment.state is EscrowState.OPEN:
        until = height if ends is None else min(height, ends)
        accrued = payment.rate.amount * max(until - escrow.settled_at, 0)
    unpaid = payment.balance + accrued
    return LeaseFunds(payment, height, unpaid, payment.withdrawn + unpaid, ends)


def _rates(prices: Sequence[Price]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for price in prices:
        total[price.denom] = total.get(price.denom, Decimal(0)) + price.amount
    return total


def _whole_blocks(funds: Decimal, rate: Decimal) -> int:
    return max(int((funds / rate).to_integral_value(ROUND_FLOOR)), 0)
