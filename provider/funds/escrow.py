"""Arithmetic of escrow (chain.md §6): pure and exact, from the chain's last settlement to the state at a height."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from provider.protocols.chain import Escrow, EscrowState, Payment

__all__ = ["LeaseFunds", "lease_funds", "runs_out_at"]


@dataclass(frozen=True, slots=True)
class LeaseFunds:
    """One lease's money at `height`. `unpaid`: earned and not yet withdrawn; `earned`: all it ever earned, both in
    micro-units of the rate's denom. `runs_out_at`: the first height at which a settlement finds too little, None when
    the account is not drawn on. `began`: height of the lease.
    """

    payment: Payment
    height: int
    unpaid: Decimal
    earned: Decimal
    runs_out_at: int | None
    began: int = 0

    @property
    def open(self) -> bool:
        """Only an open payment can be withdrawn (escrow code 7 otherwise)."""
        return self.payment.state is EscrowState.OPEN

    @property
    def out(self) -> bool:
        """A settlement closes the deployment. Not a block earlier: one that is simulated while the money lasts is
        priced at a third of the gas that closing everything takes (recordings/chain: 91k against 275k to 397k).
        """
        return self.open and self.runs_out_at is not None and self.height >= self.runs_out_at


def runs_out_at(escrow: Escrow) -> int | None:
    """The first height at which a settlement finds the account overdrawn. All rates of the deployment count, in
    whichever denom. A denom without a rate never runs out, so an account without payments gives None.

    The chain truncates the amount that each payment is owed since the last settlement, so the funds last longer than
    funds divided by rates when rates are small. A settlement at that earlier height would find enough, again and again.
    """
    rates: defaultdict[str, list[Decimal]] = defaultdict(list)
    for price in escrow.rates:
        if price.amount > 0:
            rates[price.denom].append(price.amount)
    lasts = [_blocks_until_short(escrow.funds.get(denom, Decimal(0)), found) for denom, found in rates.items()]
    return escrow.settled_at + min(lasts) if lasts else None


def lease_funds(payment: Payment, escrow: Escrow | None, *, height: int, began: int = 0) -> LeaseFunds:
    """The money of a lease at `height`. `escrow` None: the account is not open, so nothing accrues after settlement."""
    ends = runs_out_at(escrow) if escrow is not None else None
    accrued = 0
    if escrow is not None and payment.state is EscrowState.OPEN:
        until = height if ends is None else min(height, ends - 1)
        accrued = _owed(payment.rate.amount, max(until - escrow.settled_at, 0))
    unpaid = payment.balance + accrued
    return LeaseFunds(payment, height, unpaid, payment.withdrawn + unpaid, ends, began)


def _owed(rate: Decimal, blocks: int) -> int:
    numerator, denominator = rate.as_integer_ratio()
    return numerator * blocks // denominator


def _blocks_until_short(funds: Decimal, rates: Sequence[Decimal]) -> int:
    """The number of blocks after which `funds` are too little; `rates` are positive. The debt grows with every block,
    and is below the exact sum by less than one coin a rate. Between these two bounds a binary search finds the block.
    """
    held = max(int(funds), 0)
    total = sum((Fraction(*rate.as_integer_ratio()) for rate in rates), Fraction(0))
    low, high = held // total + 1, (held + len(rates)) // total + 1
    while low < high:
        middle = (low + high) // 2
        if sum(_owed(rate, middle) for rate in rates) > held:
            high = middle
        else:
            low = middle + 1
    return low
