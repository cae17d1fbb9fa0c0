"""An intent: the messages that one caller wants in a block, and what decides which transaction may carry them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from provider.protocols.chain import Message, TxResult

__all__ = ["Intent", "Rank", "earlier_intent", "intent_of"]


class Rank(IntEnum):
    """The order in which intents are sent, and the reverse order in which a short fee budget holds them back: a lease
    that earns nothing costs most.
    """

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
"""There can be one of these per bid or lease: another price or reason for the same id is the same intent."""
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
"""Messages that settle the deployment's escrow: two settlements at one height leave a payment open or panic
(recordings/chain README §2–3)."""


@dataclass(eq=False, slots=True)
class Intent:
    """`key`: equal for two intents that want the same. `kind`: intents of one kind may share a transaction; empty: the
    intent has a transaction of its own. `settles`: deployments (`owner/dseq`) whose escrow the intent settles.
    `outcome` is set once, with `done`. `tx_hash`: the transaction that carries the intent, once it was sent. `alone`:
    the intent needs a transaction of its own because a shared one failed without naming the message. `returns`: how
    often the intent was unharmed in a transaction that failed. `waiters`: callers that await the outcome.
    """

    messages: tuple[Message, ...]
    key: str
    kind: str = ""
    rank: Rank = Rank.OTHER
    settles: frozenset[str] = frozenset()
    outcome: TxResult | Exception | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    tx_hash: str = ""
    alone: bool = False
    gas_factor: float = 1.0
    returns: int = 0
    waiters: int = 0

    def finish(self, outcome: TxResult | Exception) -> None:
        if not self.done.is_set():
            self.outcome = outcome
            self.done.set()


def intent_of(messages: Sequence[Message]) -> Intent:
    """The intent of one caller. Raises ValueError for no messages, and for two that settle one deployment."""
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


def earlier_intent(key: str, *, tx_hash: str) -> Intent:
    """An intent of an earlier process, in a transaction whose end is not known. It has no messages."""
    return Intent(messages=(), key=key, tx_hash=tx_hash)


def _key(name: str, message: Message) -> str:
    if name not in _NAMED_BY_ID:
        return f"{name}/{hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()}"
    found = message.id  # type: ignore[attr-defined]
    return f"{name}/{found.owner}/{found.dseq}/{found.gseq}/{found.oseq}/{found.provider}"


def _deployment(message: Message) -> str:
    found = message.id  # type: ignore[attr-defined]
    return f"{found.owner}/{found.dseq}"
