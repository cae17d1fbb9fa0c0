"""The proof that a lease has ended (docs/architecture.md §2, rule 1).

A lease has ended only when the chain itself says closed or insufficient_funds for that lease at two different heights,
on this provider's chain id, at heights not below the highest one seen. "Not known", another chain or an older height
prove nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from lease.ids import LeaseId
from provider.chain.messages import CloseReason
from provider.protocols.chain import LeaseAnswer

__all__ = ["AnswerJudge", "Judgement", "Verdict"]

_BY_OWNER = 1
_REASONS = {_BY_OWNER: "owner"} | {reason: reason.name.lower().replace("_", " ") for reason in CloseReason}
"""The chain's numbers, chain.md §3; insufficient funds are a state of their own."""
_MOST_AHEAD = 1000
"""Blocks that an answer may be ahead of the blocks that were read. A node that names a greater height, once, would make
the answers of all other nodes old, and no lease would end until the next start.
"""


class Verdict(StrEnum):
    ALIVE = "alive"
    LOOKS_ENDED = "looks ended"
    ENDED = "ended"
    NOTHING_PROVEN = "nothing proven"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`reason` is empty for ALIVE, else it says what the chain answered and what is still needed. `suspect`: the lease
    may have ended, and no more than that is known.
    """

    verdict: Verdict
    reason: str = ""
    suspect: bool = False


class AnswerJudge:
    """Judges what nodes answer about leases. Holds what is the same for all leases: the chain id and the highest height
    seen. `chain_id` empty: the chain id of the first answer is taken.

    The heights at which a lease was said to have ended belong to that lease; forgetting them costs two more questions.
    """

    def __init__(self, chain_id: str = "", *, confirmations: int = 2) -> None:
        self.chain_id = chain_id
        self.height = 0
        self._read = 0
        self._needed = max(2, confirmations)

    def saw(self, height: int) -> None:
        """The chain's follower has reached `height`."""
        self._read = max(self._read, height)
        self.height = max(height, min(self.height, self._read + _MOST_AHEAD))

    def incomplete(self, heights: Collection[int]) -> bool:
        """Whether a lease with these `heights` looked ended but not often enough: a new block may complete the
        proof.
        """
        return 0 < len(heights) < self._needed

    def judge(self, lease: LeaseId, answer: LeaseAnswer, heights: set[int]) -> Judgement:
        """What one answer about `lease` proves, together with the answers before it. `heights`, at which the lease was
        said to have ended, is changed by the answer.
        """
        if problem := self._unusable(answer):
            return Judgement(Verdict.NOTHING_PROVEN, problem)
        old = answer.height < self.height
        self.height = max(self.height, answer.height)
        if answer.lease is None or answer.lease.id != lease:
            unknown = f"the node does not know this lease at height {answer.height}"
            return Judgement(Verdict.NOTHING_PROVEN, unknown, suspect=not old)
        if old:
            return self._judge_old(answer.height, heights, ended=answer.lease.state.ended)
        if not answer.lease.state.ended:
            heights.clear()
            return Judgement(Verdict.ALIVE)
        heights.add(answer.height)
        why = _REASONS.get(answer.lease.close_reason, "")
        said = f"the chain says {answer.lease.state.name.lower()}{why and f' ({why})'} at height {answer.height}"
        if len(heights) >= self._needed:
            return Judgement(Verdict.ENDED, said)
        more = f"{said}; {self._needed - len(heights)} more at another height is needed"
        return Judgement(Verdict.LOOKS_ENDED, more, suspect=True)

    def _unusable(self, answer: LeaseAnswer) -> str:
        if answer.height <= 0 or not answer.chain_id:
            return "the node did not say at which height and on which chain it answered"
        self.chain_id = self.chain_id or answer.chain_id
        if answer.chain_id != self.chain_id:
            return f"the node is on chain {answer.chain_id!r}, this provider on {self.chain_id!r}: check AP_NODE"
        if self._read and answer.height > self._read + _MOST_AHEAD:
            return (
                f"the node answered at height {answer.height}, this provider has read blocks up to {self._read} only: "
                f"an answer counts when it is at most {_MOST_AHEAD} blocks ahead"
            )
        return ""

    def _judge_old(self, height: int, heights: Collection[int], *, ended: bool) -> Judgement:
        """One of several nodes may be a block behind: its "alive" does no harm to a lease of which no newer answer says
        that it ended.
        """
        if not ended and not heights:
            return Judgement(Verdict.ALIVE)
        reason = f"the node answered at height {height}, this provider has already seen {self.height}"
        return Judgement(Verdict.NOTHING_PROVEN, reason)
