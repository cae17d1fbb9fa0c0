"""What the provider's wallet can still pay for. Pure.

Bidding stops before it would use the fees that closing bids and leases and withdrawing earnings will take: a provider
that cannot pay fees can neither earn nor leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from provider.units import Coin

__all__ = ["Wallet", "WalletLevel", "WalletRules", "judge_wallet"]

_GAS_OF_ONE = 400_000
"""The most that closing a lease or settling an empty account took on a real node (recordings/chain: 45k to 397k)."""
_SPARE = 10


class WalletLevel(StrEnum):
    ENOUGH = "enough"
    LOW = "low"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class WalletRules:
    """`minimum`: below so many micro-units of the gas denom there is a warning (0: never). `granter`: the account that
    pays the fees by a fee grant; empty: the provider itself.
    """

    gas_price: Coin
    gas_adjustment: float
    deposit: Coin
    minimum: int
    granter: str = ""

    @property
    def denoms(self) -> frozenset[str]:
        return frozenset({self.gas_price.denom, self.deposit.denom})


@dataclass(frozen=True, slots=True)
class Wallet:
    """`balances`: of the denoms of fees and deposits. `problem`: what is missing and what to do, for the operator;
    empty when there is enough.
    """

    balances: Mapping[str, int]
    level: WalletLevel
    problem: str = ""

    @property
    def bids(self) -> bool:
        return self.level is not WalletLevel.STOP


def judge_wallet(
    balances: Mapping[str, int], *, engaged: int, rules: WalletRules, granted: Mapping[str, int] | None = None
) -> Wallet:
    """The verdict on the wallet. `engaged`: the number of leases and open bids; each will be closed once and withdrawn
    once. `granted`: the balances of the fee granter; None when the provider pays its fees itself.
    """
    gas, deposit = rules.gas_price, rules.deposit
    fee = gas.amount * Decimal(_GAS_OF_ONE) * Decimal(str(rules.gas_adjustment))
    reserve = int((fee * (2 * engaged + _SPARE)).to_integral_value(ROUND_CEILING))
    needed = {gas.denom: reserve} if granted is None else {}
    needed[deposit.denom] = needed.get(deposit.denom, 0) + int(deposit.amount)
    for denom, amount in needed.items():
        if (have := balances.get(denom, 0)) < amount:
            what = "a bid, and the fees to close and to withdraw, take" if granted is None else "a bid takes"
            return _stop(balances, f"the wallet has {have}{denom}, {what} {amount}{denom}")
    payer, fees = ("the wallet", balances) if granted is None else (f"AP_FEE_GRANTER={rules.granter}", granted)
    have = fees.get(gas.denom, 0)
    if have < reserve:
        return _stop(
            balances, f"{payer} has {have}{gas.denom}, the fees to close and to withdraw take {reserve}{gas.denom}"
        )
    if have < rules.minimum:
        problem = f"{payer} has {have}{gas.denom}, less than AP_MINIMUM_BALANCE={rules.minimum}: top it up"
        return Wallet(dict(balances), WalletLevel.LOW, problem)
    return Wallet(dict(balances), WalletLevel.ENOUGH)


def _stop(balances: Mapping[str, int], problem: str) -> Wallet:
    return Wallet(dict(balances), WalletLevel.STOP, f"{problem}: no more bids until it is topped up")
