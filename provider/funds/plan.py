"""Which leases to withdraw now, and when to look again. Pure.

Three reasons, the most pressing first: the money of a deployment is gone, and only a settlement makes the chain notice
and close it (chain.md §6); a lease's unpaid earnings reached the threshold; its period is over (bidding.md §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from lease.ids import DeploymentId, LeaseId
from provider.funds.escrow import LeaseFunds

__all__ = ["FundsRules", "NextLook", "Why", "Withdrawal", "Withdrawn", "next_look", "withdrawals"]

_AGAIN_SECONDS = 60.0
"""A settled deployment that still looks empty is not settled again before this: its tenant may have other coins that
the chain pays from (AKT fallback, recordings/chain README 12).
"""


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
    """What we remember of a lease: `since` its last withdrawal or else its first sight, `tried` the last attempt and
    `failures` those in a row; Unix seconds.
    """

    since: float
    tried: float = 0.0
    failures: int = 0

    def rests_until(self) -> float:
        """After a refusal a minute, then twice as long each time, an hour at most (field-problems.md F8)."""
        return self.tried + min(_AGAIN_SECONDS * 2 ** max(self.failures - 1, 0), 3600.0) if self.tried else 0.0


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
        if one.runs_out_at is not None and not one.out:
            heights.append(one.runs_out_at)
        if memory.rests_until() > now:
            at = min(at, memory.rests_until())
        elif rules.period_s and memory.since + rules.period_s > now:
            at = min(at, memory.since + rules.period_s)
    return NextLook(min(heights, default=None), at)


def _why(one: LeaseFunds, memory: Withdrawn, *, now: float, rules: FundsRules) -> Why | None:
    """A withdrawal that pays less than one micro-unit only costs its fee, unless it closes what is empty."""
    if now < memory.rests_until():
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
