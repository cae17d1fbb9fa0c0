"""The journal of signed transactions, written before they are sent: a restart forgets neither a fee nor a pending
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

__all__ = ["Fate", "Journal", "MemoryJournal", "SentTx"]


class Fate(StrEnum):
    """How a transaction ended. `SENT`: not known yet. `DONE`: in a block with code 0. `FAILED`: in a block with another
    code, its fee is lost. `LAPSED`: proved to be in no block. `REFUSED`: the node did not accept it.
    """

    SENT = "sent"
    DONE = "done"
    FAILED = "failed"
    LAPSED = "lapsed"
    REFUSED = "refused"

    @property
    def paid(self) -> bool:
        """Whether the fee counts as paid, also while the end is not known."""
        return self in (Fate.SENT, Fate.DONE, Fate.FAILED)


@dataclass(frozen=True, slots=True)
class SentTx:
    """A transaction as it was sent. `account`: `chain id/address`. `keys` and `settles`: of the intents in it. `fee` in
    `denom`; `sent_at` in Unix seconds; `height` 0 while unknown.
    """

    hash: str
    account: str
    keys: tuple[str, ...]
    settles: tuple[str, ...]
    fee: int
    denom: str
    timeout_height: int
    sent_at: float
    fate: Fate = Fate.SENT
    height: int = 0


class Journal(Protocol):
    """Keeps sent transactions. Every method raises `StoreError` when the store fails."""

    async def begin(self, tx: SentTx) -> None: ...

    async def end(self, hash_: str, fate: Fate, *, height: int = 0) -> None: ...

    async def unknown(self, account: str) -> Sequence[SentTx]:
        """Transactions of `account` whose fate is `SENT`, oldest first."""
        ...

    async def fees(self, account: str, *, denom: str, since: float) -> Sequence[tuple[float, int]]:
        """(time, fee) of every transaction paid after `since`, oldest first."""
        ...


@dataclass(slots=True)
class MemoryJournal:
    """A journal in memory, for commands and tests."""

    sent: dict[str, SentTx] = field(default_factory=dict)

    async def begin(self, tx: SentTx) -> None:
        self.sent[tx.hash] = tx

    async def end(self, hash_: str, fate: Fate, *, height: int = 0) -> None:
        self.sent[hash_] = replace(self.sent[hash_], fate=fate, height=height)

    async def unknown(self, account: str) -> Sequence[SentTx]:
        return [tx for tx in self.sent.values() if tx.fate is Fate.SENT and tx.account == account]

    async def fees(self, account: str, *, denom: str, since: float) -> Sequence[tuple[float, int]]:
        return [
            (tx.sent_at, tx.fee)
            for tx in self.sent.values()
            if tx.fate.paid and tx.denom == denom and tx.account == account and tx.sent_at > since
        ]
