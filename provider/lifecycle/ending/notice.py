"""The notice of a lease whose provider has announced its reclamation: the chain's own deadline is followed.

The chain has the notice and no message takes it back, so it binds the provider whatever began it, also when the
application runs again and after a restart. A node alone could make a notice up, and a lease without a promised window
would end at once when it is closed, so the close needs evidence beside one node's answer (docs/architecture.md §2,
rule 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from provider.chain.messages import CloseReason, close_bid
from provider.errors import ChainError
from provider.lifecycle.state import Outcome
from provider.protocols import Chain, Clock
from provider.protocols.chain import Lease, LeaseAnswer, LeaseState

__all__ = ["NOT_TAKEN", "UNPROVEN", "Notice", "follow_notice"]

UNPROVEN = "it waits for evidence of the notice beside the answer of one node"
NOT_TAKEN = "the chain has not taken the request yet"
_AGAIN_S = 60.0
"""Between two requests: the node that answers may be behind the node that took the request."""
_LATEST = 253402300799
"""The last second of the year 9999."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Notice:
    """What is known of one lease's notice. `text`: what operator and tenant read, empty without a notice. `problem`:
    why the lease does not end although its time is over. `again_in`: seconds until the next check.
    `proven`: there is evidence of the notice. Times are monotonic seconds.
    """

    text: str = ""
    problem: str = ""
    again_in: float = 0.0
    proven: bool = False
    proof_sought_at: float | None = None
    asked_at: float | None = None

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome of a check, with the notice and the time at which it asks for another check."""
        if not self.text:
            return outcome
        reason = "; ".join(filter(None, (outcome.reason, self.text, self.problem)))
        again_in = self.again_in if outcome.again_in is None else min(outcome.again_in, self.again_in)
        return replace(outcome, reason=reason, again_in=again_in)

    def end(self) -> None:
        """The lease has no notice, or has ended."""
        self.text, self.problem, self.proven, self.proof_sought_at, self.asked_at = "", "", False, None, None


async def follow_notice(chain: Chain, clock: Clock, lease: Lease, notice: Notice) -> None:
    """Take in what the chain says of the notice of a living lease, and ask the chain to end the lease when the notice
    is over. Raises nothing: the lease is served all the same.
    """
    if lease.state is not LeaseState.RECLAIMING:
        if not notice.proven:  # a proven one cannot be taken back: this node is behind
            notice.end()
        return
    if not notice.proven and _due(notice.proof_sought_at, clock):
        notice.proof_sought_at = clock.monotonic()
        notice.proven = await _proven(chain, lease)
        if not notice.proven:
            remedy = "name a second node in AP_NODE, or send MsgCloseBid yourself when the notice is over"
            _log.warning("lifecycle.notice_unproven", lease=str(lease.id), remedy=remedy)
    left, ends = lease.reclaim_deadline - clock.now(), _utc(lease.reclaim_deadline)
    if left >= 0:
        notice.text = f"the provider ends this lease at {ends} ({_reason(lease).name.lower().replace('_', ' ')})"
        notice.problem, notice.again_in = "", left + 1
        return
    notice.text, notice.again_in = f"the notice of this lease ended at {ends}: the provider closes the lease", _AGAIN_S
    if not notice.proven:
        notice.problem = UNPROVEN
    elif _due(notice.asked_at, clock):
        notice.asked_at = clock.monotonic()
        notice.problem = await _close(chain, lease)


async def _close(chain: Chain, lease: Lease) -> str:
    """Returns why the request had no effect, else nothing. The chain compares with the time of its block, so a request
    that comes too early is refused with 38.
    """
    try:
        await chain.broadcast([close_bid(lease.id, reason=_reason(lease))])
    except ChainError as error:
        _log.warning("lifecycle.notice_not_ended", lease=str(lease.id), problem=str(error), again_in_seconds=_AGAIN_S)
        return NOT_TAKEN
    _log.info("lifecycle.notice_ended", lease=str(lease.id), reason=_reason(lease).name.lower())
    return ""


async def _proven(chain: Chain, lease: Lease) -> bool:
    """Whether the provider signed the notice, or two named nodes know it and none contradicts."""
    try:
        return await chain.notice_signed(lease) or _agree(lease, await chain.lease_on_each_node(lease.id))
    except ChainError as error:
        _log.warning("lifecycle.notice_unreadable", lease=str(lease.id), problem=str(error))
        return False


def _agree(lease: Lease, answers: Sequence[LeaseAnswer]) -> bool:
    found = [(answer.node, said) for answer in answers if (said := answer.lease) is not None and said.id == lease.id]
    known = {node for node, said in found if (said.state, said.reclaim_deadline) == _promise(lease)}
    return len(known) > 1 and len(known) == len({node for node, _ in found})


def _promise(lease: Lease) -> tuple[LeaseState, int]:
    return lease.state, lease.reclaim_deadline


def _due(before: float | None, clock: Clock) -> bool:
    return before is None or clock.monotonic() - before >= _AGAIN_S


def _reason(lease: Lease) -> CloseReason:
    """The reason of the notice, which is the reason of the end too."""
    return CloseReason(lease.reclaim_reason) if lease.reclaim_reason in set(CloseReason) else CloseReason.UNSPECIFIED


def _utc(seconds: int) -> str:
    at = datetime.fromtimestamp(min(max(seconds, 0), _LATEST), UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
