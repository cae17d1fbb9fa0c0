"""What our wallet can still pay for. Pure.

Bidding stops before it would take what is needed to close bids and leases and to collect what they earn: a provider
whose fees run out can neither earn nor leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from provider.units import Coin

__all__ = ["Wallet", "WalletLevel", "WalletRules", "judge_wallet"]

_GAS_OF_ONE = 250_000
"""More than a close or a withdrawal ever took on a real node (recordings/chain: 45k to 240k)."""
_SPARE = 10


class WalletLevel(StrEnum):
    ENOUGH = "enough"
    LOW = "low"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class WalletRules:
    """`minimum`: whole micro-units of the gas denom below which we warn (0: never)."""

    gas_price: Coin
    gas_adjustment: float
    deposit: Coin
    minimum: int


@dataclass(frozen=True, slots=True)
class Wallet:
    """`told` says, for a person, what is missing and what to do; empty when there is enough."""

    balances: Mapping[str, int]
    level: WalletLevel
    told: str = ""

    @property
    def bids(self) -> bool:
        return self.level is not WalletLevel.STOP


def judge_wallet(balances: Mapping[str, int], *, engaged: int, rules: WalletRules) -> Wallet:
    """`engaged`: leases and open bids, each of which must be closed once and collected once."""
    gas, deposit = rules.gas_price, rules.deposit
    fee = gas.amount * Decimal(_GAS_OF_ONE) * Decimal(str(rules.gas_adjustment))
    reserve = int((fee * (2 * engaged + _SPARE)).to_integral_value(ROUND_CEILING))
    needed = {gas.denom: reserve}
    needed[deposit.denom] = needed.get(deposit.denom, 0) + int(deposit.amount)
    for denom, amount in needed.items():
        have = balances.get(denom, 0)
        if have < amount:
            told = f"the wallet has {have}{denom}, a bid and the fees to close and collect take {amount}{denom}"
            return Wallet(dict(balances), WalletLevel.STOP, f"{told}: no more bids until it is topped up")
    have = balances.get(gas.denom, 0)
    if have < rules.minimum:
        told = f"the wallet has {have}{gas.denom}, less than AP_MINIMUM_BALANCE={rules.minimum}: top it up"
        return Wallet(dict(balances), WalletLevel.LOW, told)
    return Wallet(dict(balances), WalletLevel.ENOUGH)
