"""The operator's settings for transactions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from provider.settings import Settings
from provider.units import Coin

__all__ = ["Fees", "Fence", "Policy", "policy_from"]

_MAX_PENDING = 64
"""Far below what a node accepts: 240 were in one block (recordings/chain README, "Measured")."""


class Fence(Protocol):
    """Whether this process may send, where several processes have the key (`provider.leadership`)."""

    def height_problem(self, head: int) -> str:
        """Why nothing may be sent when the chain is at `head`; empty when it may."""
        ...

    @property
    def last_height(self) -> int:
        """The last height that a transaction may be valid for."""
        ...


@dataclass(frozen=True, slots=True)
class Fees:
    """fee = ceil(gas × price); gas = ceil(simulated × adjustment)."""

    price: Coin
    adjustment: float

    def gas(self, used: int, *, factor: float = 1.0) -> int:
        return math.ceil(used * self.adjustment * factor)

    def fee(self, gas: int) -> int:
        return math.ceil(gas * self.price.amount)


@dataclass(frozen=True, slots=True)
class Policy:
    """`timeout_s`: how long a caller waits. `timeout_blocks`: a transaction is valid for so many blocks. `batch`: the
    most messages of one kind in a transaction. `max_pending`: transactions that may be pending at once. `granter`: the
    account that pays the fees, empty: the signer. `fee_limit`: for one transaction, `fee_budget`: for 24 hours, both in
    the fee's denom; 0: no limit. `fence`: None where no other process has the key.
    """

    fees: Fees
    timeout_s: float = 30.0
    timeout_blocks: int = 20
    batch: int = 40
    max_pending: int = _MAX_PENDING
    granter: str = ""
    fee_limit: int = 0
    fee_budget: int = 0
    fence: Fence | None = None


def policy_from(settings: Settings, *, fence: Fence | None = None) -> Policy:
    """The policy of these settings. `tx_mode` single: one message a transaction, and each is in a block before the next
    is sent, as the Go provider does it.
    """
    single, sequences = settings.tx_mode == "single", settings.tx_mode == "sequences"
    return Policy(
        fees=Fees(price=settings.gas_prices, adjustment=settings.gas_adjustment),
        timeout_s=settings.tx_timeout,
        timeout_blocks=settings.tx_timeout_blocks,
        batch=1 if single or sequences else settings.tx_batch,
        max_pending=1 if single else _MAX_PENDING,
        granter=settings.fee_granter,
        fee_limit=settings.fee_limit,
        fee_budget=settings.fee_budget,
        fence=fence,
    )
