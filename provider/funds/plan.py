"""Which leases to withdraw now, and when to look again. Pure.

Three reasons, the most pressing first: the money of a deployment is gone, and only a settlement makes the chain notice
and close it (chain.md §6); a lease's unpaid earnings reached the threshold; its period is over (bidding.md §5).
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

__all__ = ["FundsRules", "NextLook", "Why", "Withdrawal", "Withdrawn", "next_look", "withdrawals"]

_REST_SECONDS = 60.0
_LONGEST_REST_SECONDS = 3600.0
_REST = GrowingPause(_REST_SECONDS, _LONGEST_REST_SECONDS)
_EMPTY_WALLET_SECONDS = 300.0
"""A refusal for want of fees costs a simulation only, and says nothing of the lease."""


class Why(StrEnum):
    OUT_OF_FUNDS = "out of funds"
    THRESHOLD = "threshold"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class FundsRules:
    """`interval_s`: between two looks; `period_s`: between two withdrawals of a lease, 0 for none of that kind;
    `threshold`: micro-units of the lease's own denom, 0 for none.
    """

    interval_s: float
    period_s: float
    threshold: Decimal


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What we remember of a lease: `since` its last withdrawal or else its first sight; `rests_until`: not tried
    before; `fruitless`: attempts in a row that were refused or left an empty account open. Unix seconds.
    """

    since: float
    rests_until: float = 0.0
    fruitless: int = 0

    def collected(self, now: float) -> Withdrawn:
        return Withdrawn(now, now + _REST_SECONDS)

    def settled(self, now: float) -> Withdrawn:
        """An empty account was settled. If it is open all the same, the chain found other coins of the tenant to pay
        from (AKT fallback, recordings/chain README 12): it pays, so it is left alone for longer each time.
        """
        return replace(self.refused(now), since=now)

    def refused(self, now: float) -> Withdrawn:
        """A minute, then twice as long each time, an hour at most (field-problems.md F8)."""
        rest = _REST.after(self.fruitless + 1)
        return replace(self, rests_until=now + rest, fruitless=self.fruitless + 1)

    def failed(self, problem: ChainError, now: float) -> Withdrawn:
        """What concerns the node, the budget or the wallet does not count against the lease."""
        if isinstance(problem, FeesHeldBack):
            rest = min(max(problem.again_at - now, _REST_SECONDS), _LONGEST_REST_SECONDS)
            return replace(self, rests_until=now + rest)
        if isinstance(problem, CannotPay):
            return replace(self, rests_until=now + _EMPTY_WALLET_SECONDS)
        return self.refused(now) if isinstance(problem, TxRefused) else replace(self, rests_until=now + _REST_SECONDS)

    def no_later_than(self, now: float) -> Withdrawn:
        """After a clock that had run ahead was set back."""
        return replace(self, since=min(self.since, now), rests_until=min(self.rests_until, now + _LONGEST_REST_SECONDS))


@dataclass(frozen=True, slots=True)
class Withdrawal:
    lease: LeaseId
    why: Why
    unpaid: Decimal


@dataclass(frozen=True, slots=True)
class NextLook:
    """Whichever comes first: a height (None: none that matters) or a time."""

    height: int | None
    at: float


def withdrawals(
    funds: Iterable[LeaseFunds], known: Mapping[LeaseId, Withdrawn], *, now: float, rules: FundsRules
) -> Sequence[Withdrawal]:
    """At most one a lease, and for an empty deployment one in all: it settles every payment of the account."""
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


def next_look(
    funds: Iterable[LeaseFunds], known: Mapping[LeaseId, Withdrawn], *, now: float, rules: FundsRules
) -> NextLook:
    """The height at which the first account is empty, and the time of the next period, of a rest that ends, or of the
    next ordinary look.
    """
    heights, at = [], now + rules.interval_s
    for one in funds:
        memory = known[one.payment.lease]
        if one.open and one.runs_out_at is not None and not one.out:
            heights.append(one.runs_out_at)
        if memory.rests_until > now:
            at = min(at, memory.rests_until)
        elif rules.period_s and memory.since + rules.period_s > now:
            at = min(at, memory.since + rules.period_s)
    return NextLook(min(heights, default=None), at)


def _why(one: LeaseFunds, memory: Withdrawn, *, now: float, rules: FundsRules) -> Why | None:
    """A withdrawal that pays less than one micro-unit only costs its fee, unless it closes what is empty."""
    if now < memory.rests_until or not one.open:
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
