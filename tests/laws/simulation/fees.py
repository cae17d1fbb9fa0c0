"""The day's fee budget before the fake chain: the provider's own arithmetic and journal, and what was really paid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from provider.chain.tx.budget import DAY_S, affordable
from provider.chain.tx.intents import Intent, intent_of
from provider.chain.tx.journal import Fate, SentTx
from provider.errors import FeesHeldBack, NotSent, StoreError
from provider.protocols.chain import Message
from provider.store import Database
from provider.store.transactions import StoredJournal
from tests.world.virtual import VirtualClock

__all__ = ["Fees"]

_BUDGET, _FEE, _DENOM, _ACCOUNT = 100_000, 2_500, "uakt", "simnet-1/us"


class Fees:
    """`held` counts the messages that had to wait; `above` hears when a day has cost more than its budget."""

    def __init__(self, database: Database, clock: VirtualClock, *, above: Callable[[str], None]) -> None:
        self._journal = StoredJournal(database)
        self._clock = clock
        self._above = above
        self._paid: list[tuple[float, int]] = []
        self._numbers = count()
        self._others: dict[str, tuple[float, int]] = {}
        self.held = 0

    async def pay(self, messages: Sequence[Message]) -> None:
        """Raises `FeesHeldBack`, and `NotSent` when it cannot be written down."""
        intent = intent_of(messages)
        try:
            within = await self._within(intent)
            if within:
                await self._journal.begin(self._transaction(_FEE, at=self.now))
        except StoreError as error:
            raise NotSent("", f"nothing is sent that cannot be written down: {error}") from error
        if not within:
            self.held += 1
            assert isinstance(intent.outcome, FeesHeldBack)
            raise intent.outcome
        self.spend(_FEE, at=self.now)

    @property
    def now(self) -> float:
        return self._clock.now()

    async def _within(self, intent: Intent) -> bool:
        found = await affordable(
            (intent,), fee=_FEE, denom=_DENOM, budget=_BUDGET, journal=self._journal, account=_ACCOUNT, now=self.now
        )
        return bool(found)

    def spend(self, fee: int = _FEE, *, at: float) -> None:
        """This much has left the account."""
        self._paid.append((at, fee))
        spent = self._spent()
        if spent > _BUDGET:
            self._above(f"rule 7: fees of a day are {spent}{_DENOM}, {_BUDGET}{_DENOM} are allowed")

    def _spent(self) -> int:
        return sum(fee for at, fee in self._paid if at > self.now - DAY_S)

    async def use_up(self, share: float, *, seconds: float) -> None:
        """Other transactions of this key, almost a day ago, have used `share` of the budget; they count for some
        `seconds` more.
        """
        fee = int(_BUDGET * share) - self._spent()
        at = self.now - DAY_S + seconds
        if fee <= 0:
            return
        other = self._transaction(fee, at=at)
        try:
            await self._journal.begin(other)
        except StoreError:
            return
        self._others[other.hash] = at, fee
        self.spend(fee, at=at)

    async def calm(self) -> None:
        """Those others turn out to be in no block: a clock that went back would let them count for an hour more."""
        for hash_, paid in self._others.items():
            await self._journal.end(hash_, Fate.LAPSED)
            if paid in self._paid:
                self._paid.remove(paid)

    def forget(self) -> None:
        """With its disk the provider has lost what it knew of the day's fees."""
        self._paid.clear()

    def _transaction(self, fee: int, *, at: float) -> SentTx:
        name = f"{next(self._numbers):064X}"
        return SentTx(name, _ACCOUNT, (), (), fee, _DENOM, timeout_height=0, sent_at=at, fate=Fate.DONE)
