"""What the funds loop remembers about each lease, in memory and in the store: when it was last withdrawn, and how much
it had earned at the last check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import islice

from lease.ids import DeploymentId, LeaseId
from provider.funds.earnings import by_day, first_days
from provider.funds.escrow import LeaseFunds
from provider.funds.plan import WithdrawalMemory
from provider.store import Database
from provider.store.money import Earned, LeaseMoney, forget_ended, known_money, save_money

__all__ = ["FundsLedger"]

_NOTE_S = 300.0
"""Checks that blocks cause may follow each other closely; the earnings of a lease are not stored more often."""
_ASK_AGAIN_S = 600.0
_MOST_ASKED = 50
_AT_ONCE = 500
"""Leases in one transaction of the store, so that other writers, such as a bid's decision, wait only for these."""
_KEEP_ENDED_S = 7 * 86400.0
"""For so long a node that is behind may still list an ended lease without its earnings counting twice."""
_FORGET_EVERY_S = 3600.0
_BLOCK_S = 6.0
"""Block time of the real networks (chain.md §6), to estimate how long a lease has run that was never seen before."""


class FundsLedger:
    """`withdrawn`: every lease that was seen and has not ended, with when it was withdrawn."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[LeaseId, LeaseMoney] = {}
        self._asked: dict[LeaseId, float] = {}
        self._loaded = False
        self._forgot_at = 0.0
        self.withdrawn: dict[LeaseId, WithdrawalMemory] = {}

    async def load(self) -> None:
        """Read the store, once. Leases that were added while it could not be read stay as they are. Raises
        `StoreError`.
        """
        if self._loaded:
            return
        self._seen.update(await known_money(self._database))
        self._loaded = True
        for lease, money in self._seen.items():
            if not money.ended:
                self.withdrawn.setdefault(lease, WithdrawalMemory(money.since))

    def begin_anew(self) -> None:
        """The store is an empty one: the next check writes all living leases, with the last month of their earnings."""
        self._seen.clear()
        self._loaded = False

    def payable(self) -> bool:
        """End the pauses of withdrawals for which the wallet had too little. Returns whether there were any."""
        unpaid = [lease for lease, memory in self.withdrawn.items() if memory.unpaid]
        for lease in unpaid:
            self.withdrawn[lease] = self.withdrawn[lease].payable()
        return bool(unpaid)

    def begin(self, seen: Iterable[LeaseFunds], *, now: float) -> None:
        """Add the leases that are new. Times later than `now`, after a clock was set back, are corrected."""
        for item in seen:
            lease = item.payment.lease
            self.withdrawn[lease] = self.withdrawn.get(lease, WithdrawalMemory(now)).no_later_than(now)

    def missing(self, seen: Iterable[LeaseFunds], *, now: float) -> Sequence[LeaseId]:
        """Some of the known leases that a full list does not have, each at most every ten minutes: a node may know none
        of them, as after a change of chain.
        """
        listed = {item.payment.lease for item in seen}
        gone = sorted(lease for lease, money in self._seen.items() if not money.ended and lease not in listed)
        due = [lease for lease in gone if not 0 <= now - self._asked.get(lease, -_ASK_AGAIN_S) < _ASK_AGAIN_S]
        for lease in due[:_MOST_ASKED]:
            self._asked[lease] = now
        return due[:_MOST_ASKED]

    def change(self, lease: LeaseId, memory: WithdrawalMemory) -> None:
        """Replace the memory of a lease, unless it has ended meanwhile."""
        if lease in self.withdrawn:
            self.withdrawn[lease] = memory

    def settled(self, deployment: DeploymentId, *, now: float) -> None:
        """One withdrawal settles all leases of an empty deployment, so all of them pause."""
        for lease, memory in self.withdrawn.items():
            if lease.deployment == deployment:
                self.withdrawn[lease] = memory.settled(now)

    async def note(self, seen: Sequence[LeaseFunds], *, ended: Sequence[LeaseFunds], now: float) -> None:
        """Store what was earned since the last check. Raises `StoreError`, and then the next check stores the rest."""
        self.begin(seen, now=now)
        rows = {item.payment.lease: self._row(item, now=now, ended=False) for item in seen}
        rows = {lease: row for lease, row in rows.items() if self._is_news(row)}
        rows |= {item.payment.lease: self._row(item, now=now, ended=True) for item in ended}
        began = {item.payment.lease: now - _BLOCK_S * max(item.height - item.began, 0) for item in seen}
        waiting = iter(rows.values())
        while some := list(islice(waiting, _AT_ONCE)):
            shares = [share for row in some for share in self._shares(row, began)]
            await save_money(self._database, some, shares)
            self._seen |= {row.lease: row for row in some}
        self._drop_ended(seen)
        await self._forget(now)

    def _drop_ended(self, seen: Iterable[LeaseFunds]) -> None:
        listed = {item.payment.lease for item in seen}
        ended = [lease for lease in self.withdrawn if lease not in listed and self._has_ended(lease)]
        for lease in ended:
            del self.withdrawn[lease]
            self._asked.pop(lease, None)

    def _has_ended(self, lease: LeaseId) -> bool:
        return lease in self._seen and self._seen[lease].ended

    async def _forget(self, now: float) -> None:
        if 0 <= now - self._forgot_at < _FORGET_EVERY_S:
            return
        before = now - _KEEP_ENDED_S
        await forget_ended(self._database, before=before)
        self._forgot_at = now
        self._seen = {lease: row for lease, row in self._seen.items() if not row.ended or row.seen_at >= before}

    def _is_news(self, row: LeaseMoney) -> bool:
        before = self._seen.get(row.lease)
        if before is None or before.ended:
            return before is None or row.earned > before.earned
        return row.since != before.since or not 0 <= row.seen_at - before.seen_at < _NOTE_S

    def _row(self, item: LeaseFunds, *, now: float, ended: bool) -> LeaseMoney:
        """Earnings never decrease: a node that is behind must not take back what another node reported."""
        lease, denom = item.payment.lease, item.payment.rate.denom
        earned, before = item.earned, self._seen.get(lease)
        if before is not None and before.denom == denom and not ended:
            earned = max(earned, before.earned)
        since = self.withdrawn[lease].since if lease in self.withdrawn else now
        rate, unpaid = item.payment.rate.amount, Decimal(0) if ended else item.unpaid
        return LeaseMoney(lease, denom, earned, now, since, ended, rate=rate, unpaid=unpaid)

    def _shares(self, row: LeaseMoney, began: Mapping[LeaseId, float]) -> list[Earned]:
        """After an upgrade the chain may pay in another coin and report all earlier earnings in it (field problem F11).
        The earlier earnings are counted already, so the new coin counts from this check on.
        """
        before = self._seen.get(row.lease)
        if before is not None and before.denom != row.denom:
            return []
        if before is not None:
            shares = by_day(row.earned - before.earned, since=before.seen_at, until=row.seen_at)
        else:
            shares = first_days(row.earned, since=began.get(row.lease, row.seen_at), until=row.seen_at)
        return [Earned(day, row.lease, row.denom, amount) for day, amount in shares.items()]
