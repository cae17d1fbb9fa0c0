"""What the funds loop remembers of each lease, in memory and in the store: when it was last withdrawn, and what it had
earned when it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from lease.ids import LeaseId
from provider.funds.earnings import by_day
from provider.funds.escrow import LeaseFunds
from provider.funds.plan import Withdrawn
from provider.store import Database
from provider.store.money import Earned, LeaseMoney, known_money, save_money

__all__ = ["Money"]


class Money:
    """`withdrawn`: every lease that was seen and has not ended."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[LeaseId, LeaseMoney] = {}
        self._loaded = False
        self.withdrawn: dict[LeaseId, Withdrawn] = {}

    async def load(self) -> None:
        """Once; what was begun while the store could not be read keeps its own memory. Raises `StoreError`."""
        if self._loaded:
            return
        self._seen.update(await known_money(self._database))
        self._loaded = True
        for lease, money in self._seen.items():
            self.withdrawn.setdefault(lease, Withdrawn(money.since))

    def begin(self, seen: Iterable[LeaseFunds], *, now: float) -> None:
        """A place for each lease, whatever the store says."""
        for item in seen:
            self.withdrawn.setdefault(item.payment.lease, Withdrawn(now))

    def missing(self, seen: Iterable[LeaseFunds]) -> Sequence[LeaseId]:
        """Leases we knew that a full list no longer has."""
        return sorted(set(self._seen) - {item.payment.lease for item in seen})

    async def note(self, seen: Sequence[LeaseFunds], *, ended: Sequence[LeaseFunds], now: float) -> None:
        """Write down what was earned since the last look. Raises `StoreError`, and then nothing is noted."""
        self.begin(seen, now=now)
        rows, shares = [], []
        for item in (*seen, *ended):
            row = self._row(item, now=now, ended=item in ended)
            rows.append(row)
            shares += self._shares(row)
        await save_money(self._database, rows, shares)
        self._seen.update((row.lease, row) for row in rows)
        for row in rows:
            if row.ended:
                self._seen.pop(row.lease)
                self.withdrawn.pop(row.lease, None)

    def _row(self, item: LeaseFunds, *, now: float, ended: bool) -> LeaseMoney:
        """Earnings never go down: a node that is behind must not take back what another told."""
        lease, before = item.payment.lease, self._seen.get(item.payment.lease)
        earned = item.earned if before is None or ended else max(item.earned, before.earned)
        since = self.withdrawn[lease].since if lease in self.withdrawn else now
        return LeaseMoney(lease, item.payment.rate.denom, earned, now, since, ended)

    def _shares(self, row: LeaseMoney) -> list[Earned]:
        before = self._seen.get(row.lease)
        since = before.seen_at if before is not None else row.seen_at
        gained = row.earned - (before.earned if before is not None else Decimal(0))
        shares = by_day(gained, since=since, until=row.seen_at)
        return [Earned(day, row.lease, row.denom, amount) for day, amount in shares.items()]
