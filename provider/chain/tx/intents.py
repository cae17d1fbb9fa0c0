"""An intent: messages that one caller wants in a block, and what of them decides how they may travel."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from provider.protocols.chain import Message, TxResult

__all__ = ["Intent", "Rank", "intent_of", "unknown_intent"]


class Rank(IntEnum):
    """Who goes first, and whose fees are held back last: a lease that earns nothing costs most."""

    CLOSE = 0
    WITHDRAW = 1
    OTHER = 2
    BID = 3


_RANKS = {
    "MsgCloseBid": Rank.CLOSE,
    "MsgCloseLease": Rank.CLOSE,
    "MsgLeaseStartReclaim": Rank.CLOSE,
    "MsgWithdrawLease": Rank.WITHDRAW,
    "MsgCreateBid": Rank.BID,
}
_NAMED_BY_ID = frozenset(_RANKS)
"""One of these a bid or lease is all there can be: another price or reason for the same id is the same intent."""
_SHARE_A_TRANSACTION = frozenset({"MsgCloseBid", "MsgCreateBid", "MsgWithdrawLease"})
_SETTLE = frozenset(
    {
        "MsgCloseBid",
        "MsgCloseDeployment",
        "MsgCloseGroup",
        "MsgCloseLease",
        "MsgPauseGroup",
        "MsgWithdrawLease",
    }
)
"""They settle the deployment's escrow: twice at one height leaves a payment open or panics (recordings/chain README
§2–3)."""


@dataclass(eq=False, slots=True)
class Intent:
    """`key`: what makes two intents the same. `kind`: may share a transaction with others of it; empty: goes alone.
    `settles`: deployments (`owner/dseq`) whose escrow it settles. `outcome` is set once, with `done`.
    """

    messages: tuple[Message, ...]
    key: str
    kind: str = ""
    rank: Rank = Rank.OTHER
    settles: frozenset[str] = frozenset()
    outcome: TxResult | Exception | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    flight: str = ""
    """Hash of the transaction it is in, once that was sent."""
    alone: bool = False
    """A transaction of its own from now on: the shared one failed, and nobody said through whom."""
    gas_factor: float = 1.0
    returns: int = 0
    """How often it came back unharmed from a transaction that failed."""
    waiters: int = 0

    def finish(self, outcome: TxResult | Exception) -> None:
        if not self.done.is_set():
            self.outcome = outcome
            self.done.set()


def intent_of(messages: Sequence[Message]) -> Intent:
    """Raises ValueError for nothing, and for what would settle one deployment twice in one transaction."""
    if not messages:
        raise ValueError("there is nothing to send")
    names = [message.DESCRIPTOR.name for message in messages]
    settles = [_deployment(message) for name, message in zip(names, messages, strict=True) if name in _SETTLE]
    if len(set(settles)) != len(settles):
        raise ValueError(f"{', '.join(names)} settle one deployment twice in one transaction; send them one by one")
    single = len(messages) == 1 and names[0] in _SHARE_A_TRANSACTION
    return Intent(
        messages=tuple(messages),
        key="+".join(_key(name, message) for name, message in zip(names, messages, strict=True)),
        kind=names[0] if single else "",
        rank=min(_RANKS.get(name, Rank.OTHER) for name in names),
        settles=frozenset(settles),
    )


def unknown_intent(key: str, *, flight: str) -> Intent:
    """One of a process before us, of whose transaction we know no end."""
    return Intent(messages=(), key=key, flight=flight)


def _key(name: str, message: Message) -> str:
    if name not in _NAMED_BY_ID:
        return f"{name}/{hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()}"
    found = message.id  # type: ignore[attr-defined]
    return f"{name}/{found.owner}/{found.dseq}/{found.gseq}/{found.oseq}/{found.provider}"


def _deployment(message: Message) -> str:
    found = message.id  # type: ignore[attr-defined]
    return f"{found.owner}/{found.dseq}"
