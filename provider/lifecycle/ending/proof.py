"""When is a lease proven to have ended? (docs/architecture.md §2, rule 1)

Only when the chain itself says closed or insufficient_funds for that lease at two different heights, on our chain id,
at heights not below any we have seen. Not known, another chain, an older height: these say nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lease.ids import LeaseId
from provider.chain.messages import CloseReason
from provider.protocols.chain import LeaseAnswer

__all__ = ["Judgement", "Proofs", "Verdict"]

_BY_OWNER = 1
_WHY = {_BY_OWNER: "owner"} | {reason: reason.name.lower().replace("_", " ") for reason in CloseReason}
"""The chain's numbers, chain.md §3; insufficient funds are a state of their own."""


class Verdict(StrEnum):
    ALIVE = "alive"
    LOOKS_ENDED = "looks ended"
    ENDED = "ended"
    NO_WORD = "no word"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is empty for ALIVE, else what was said and what is still needed. `suspect`: it may have ended, and no
    more than that is known.
    """

    verdict: Verdict
    reason: str = ""
    suspect: bool = False


class Proofs:
    """Remembers the heights at which each lease was said to have ended, and the highest height of all.

    `chain_id` empty: the first answer's is ours. Forgetting all this costs nothing but two more questions.
    """

    def __init__(self, chain_id: str = "", *, confirmations: int = 2) -> None:
        self.chain_id = chain_id
        self.height = 0
        self._needed = max(2, confirmations)
        self._heights: dict[LeaseId, set[int]] = {}

    def saw(self, height: int) -> None:
        """The follower of our chain has reached `height`."""
        self.height = max(self.height, height)

    def forget(self, lease: LeaseId) -> None:
        self._heights.pop(lease, None)

    def pending(self) -> tuple[LeaseId, ...]:
        """Leases that looked ended but not often enough: a new block is a chance to prove it."""
        return tuple(lease for lease, heights in self._heights.items() if len(heights) < self._needed)

    def weigh(self, lease: LeaseId, answer: LeaseAnswer) -> Judgement:
        """What one answer about `lease` is worth, together with those before it."""
        if problem := self._unusable(answer):
            return Judgement(Verdict.NO_WORD, problem)
        old = answer.height < self.height
        self.height = max(self.height, answer.height)
        if answer.lease is None or answer.lease.id != lease:
            unknown = f"the node does not know this lease at height {answer.height}"
            return Judgement(Verdict.NO_WORD, unknown, suspect=not old)
        if old:
            return self._of_old(lease, answer.height, ended=answer.lease.state.ended)
        if not answer.lease.state.ended:
            self.forget(lease)
            return Judgement(Verdict.ALIVE)
        heights = self._heights.setdefault(lease, set())
        heights.add(answer.height)
        why = _WHY.get(answer.lease.close_reason, "")
        word = f"the chain says {answer.lease.state.name.lower()}{why and f' ({why})'} at height {answer.height}"
        if len(heights) >= self._needed:
            return Judgement(Verdict.ENDED, word)
        more = f"{word}; {self._needed - len(heights)} more at another height is needed"
        return Judgement(Verdict.LOOKS_ENDED, more, suspect=True)

    def _unusable(self, answer: LeaseAnswer) -> str:
        if answer.height <= 0 or not answer.chain_id:
            return "the node did not say at which height and on which chain it answered"
        self.chain_id = self.chain_id or answer.chain_id
        if answer.chain_id != self.chain_id:
            return f"the node is on chain {answer.chain_id!r}, ours is {self.chain_id!r}: check AP_NODE"
        return ""

    def _of_old(self, lease: LeaseId, height: int, *, ended: bool) -> Judgement:
        """One of several nodes may be a block behind: its "alive" does no harm to a lease nothing newer is known of."""
        if not ended and lease not in self._heights:
            return Judgement(Verdict.ALIVE)
        return Judgement(Verdict.NO_WORD, f"the node answered at height {height}, we have already seen {self.height}")
