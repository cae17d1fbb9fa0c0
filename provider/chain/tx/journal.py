"""What was signed, written down before it is sent: a restart forgets neither a fee nor a transaction on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

__all__ = ["Fate", "Journal", "MemoryJournal", "SentTx"]


class Fate(StrEnum):
    """`SENT`: not known yet. `DONE`: in a block with code 0. `FAILED`: in a block with another code, its fee gone.
    `LAPSED`: proved to be in no block. `REFUSED`: the node never took it.
    """

    SENT = "sent"
    DONE = "done"
    FAILED = "failed"
    LAPSED = "lapsed"
    REFUSED = "refused"

    @property
    def paid(self) -> bool:
        """Whether its fee counts, be it because nobody knows yet."""
        return self in (Fate.SENT, Fate.DONE, Fate.FAILED)


@dataclass(frozen=True, slots=True)
class SentTx:
    """`account`: `chain id/address`. `keys` and `settles`: of the intents in it. `fee` in `denom`; `sent_at` Unix
    seconds; `height` 0 while unknown.
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
    """Raises `StoreError` where it cannot keep or tell."""

    async def begin(self, tx: SentTx) -> None: ...

    async def end(self, hash_: str, fate: Fate, *, height: int = 0) -> None: ...

    async def unknown(self, account: str) -> Sequence[SentTx]:
        """Those whose fate is `SENT`, oldest first."""
        ...

    async def fees(self, account: str, *, denom: str, since: float) -> Sequence[tuple[float, int]]:
        """(time, fee) of everything paid since then, oldest first."""
        ...


@dataclass(slots=True)
class MemoryJournal:
    """For a process that need not remember: commands, tests."""

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
