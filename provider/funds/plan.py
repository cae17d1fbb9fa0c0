"""Which leases to withdraw now, and when to check again. Pure.

There are three reasons, the most urgent first: the money of a deployment is used up, and the chain notices it and
closes the deployment only at a settlement (chain.md §6); the unpaid earnings of a lease reached the threshold; its
period is over (bidding.md §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from lease.ids import DeploymentId, LeaseId
from provider.errors import CannotPay, ChainError, FeesHeldBack, TxRefused
from provider.funds.escrow import LeaseFunds
from provider.waits import GrowingPause

__all__ = ["FundsRules", "NextCheck", "Why", "Withdrawal", "WithdrawalMemory", "next_check", "withdrawals"]

_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3600.0
_PAUSE = GrowingPause(_PAUSE_S, _LONGEST_PAUSE_S)
_EMPTY_WALLET_S = 300.0
"""A refusal because fees cannot be paid costs only a simulation, and says nothing about the lease."""


class Why(StrEnum):
    OUT_OF_FUNDS = "out of funds"
    THRESHOLD = "threshold"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class FundsRules:
    """`interval_s`: between two checks. `period_s`: between two withdrawals of a lease, 0 for none by period.
    `threshold`: micro-units of the lease's own denom, 0 for none by threshold.
    """

    interval_s: float
    period_s: float
    threshold: Decimal


@dataclass(frozen=True, slots=True)
class WithdrawalMemory:
    """`since`: the last withdrawal of the lease, or else when it was first seen. `paused_until`: no withdrawal before.
    Both are Unix seconds. `fruitless`: attempts in a row that were refused or left an empty account open. `unpaid`: it
    pauses because the wallet could not pay.
    """

    since: float
    paused_until: float = 0.0
    fruitless: int = 0
    unpaid: bool = False

    def collected(self, now: float) -> WithdrawalMemory:
        return WithdrawalMemory(now, now + _PAUSE_S)

    def settled(self, now: float) -> WithdrawalMemory:
        """After the settlement of an empty account. If it stays open, the chain pays from other coins of the tenant
        (AKT fallback, recordings/chain README 12), so the pause is longer each time.
        """
        return replace(self.refused(now), since=now)

    def refused(self, now: float) -> WithdrawalMemory:
        """A pause of a minute, then twice as long each time, at most an hour (field-problems.md F8)."""
        pause = _PAUSE.after(self.fruitless + 1)
        return replace(self, paused_until=now + pause, fruitless=self.fruitless + 1, unpaid=False)

    def payable(self) -> WithdrawalMemory:
        """The wallet can pay again."""
        return replace(self, paused_until=0.0, unpaid=False) if self.unpaid else self

    def failed(self, problem: ChainError, now: float) -> WithdrawalMemory:
        """A problem of the node, the budget or the wallet does not count as an attempt."""
        if isinstance(problem, FeesHeldBack):
            pause = min(max(problem.again_at - now, _PAUSE_S), _LONGEST_PAUSE_S)
            return replace(self, paused_until=now + pause, unpaid=False)
        if isinstance(problem, CannotPay):
            return replace(self, paused_until=now + _EMPTY_WALLET_S, unpaid=True)
        if isinstance(problem, TxRefused):
            return self.refused(now)
        return replace(self, paused_until=now + _PAUSE_S, unpaid=False)

    def no_later_than(self, now: float) -> WithdrawalMemory:
        """Without times of the future, after a clock that ran ahead was set back."""
        return replace(self, since=min(self.since, now), paused_until=min(self.paused_until, now + _LONGEST_PAUSE_S))


@dataclass(frozen=True, slots=True)
class Withdrawal:
    lease: LeaseId
    why: Why
    unpaid: Decimal


@dataclass(frozen=True, slots=True)
class NextCheck:
    """Whichever comes first: a height (None: no height matters) or a time."""

    height: int | None
    at: float


def withdrawals(
    funds: Iterable[LeaseFunds], known: Mapping[LeaseId, WithdrawalMemory], *, now: float, rules: FundsRules
) -> Sequence[Withdrawal]:
    """At most one withdrawal for a lease, and one for an empty deployment, which settles every payment of the
    account.
    """
    found: list[Withdrawal] = []
    settled: set[DeploymentId] = set()
    for one in sorted(funds, key=lambda item: (not item.out, item.payment.lease)):
        lease = one.payment.lease
        why = None if lease.deployment in settled else _why(one, known[lease], now=now, rules=rules)
        if why is None:
            continue
        if why is Why.OUT_OF_FUNDS:
            settled.add(lease.deployment)
        found.append(Withdrawal(lease, why, one.unpaid))
    return found


def next_check(
    funds: Iterable[LeaseFunds], known: Mapping[LeaseId, WithdrawalMemory], *, now: float, rules: FundsRules
) -> NextCheck:
    """The height at which the first account is empty, and the time of the next period, of the end of a pause, or of the
    next regular check.
    """
    heights, at = [], now + rules.interval_s
    for one in funds:
        memory = known[one.payment.lease]
        if one.open and one.runs_out_at is not None and not one.out:
            heights.append(one.runs_out_at)
        if memory.paused_until > now:
            at = min(at, memory.paused_until)
        elif rules.period_s and memory.since + rules.period_s > now:
            at = min(at, memory.since + rules.period_s)
    return NextCheck(min(heights, default=None), at)


def _why(one: LeaseFunds, memory: WithdrawalMemory, *, now: float, rules: FundsRules) -> Why | None:
    """A withdrawal of less than one micro-unit only costs its fee, unless it closes an empty deployment."""
    if now < memory.paused_until or not one.open:
        return None
    if one.out:
        return Why.OUT_OF_FUNDS
    if one.unpaid < 1:
        return None
    if rules.threshold and one.unpaid >= rules.threshold:
        return Why.THRESHOLD
    if rules.period_s and now >= memory.since + rules.period_s:
        return Why.PERIOD
    return None
