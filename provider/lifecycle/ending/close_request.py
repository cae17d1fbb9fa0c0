"""The provider's request to the chain to end a lease: at once, or after the notice that the bid promised.

The rules are those of chain.md §4.2 and §14, 3. Nothing is removed here: the chain's own answer ends the lease later.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from lease.ids import LeaseId
from provider.chain.messages import CloseReason, close_bid, start_reclaim
from provider.errors import ChainError
from provider.lifecycle.state import Outcome
from provider.protocols import Chain, Clock
from provider.protocols.chain import Lease, LeaseState, Message

__all__ = ["ending_message", "request_close"]

_log = structlog.get_logger(__name__)


def ending_message(lease: Lease, *, reason: CloseReason, now: float) -> Message | None:
    """The one message that brings the lease nearer to its end; None while its notice runs, and when it has ended. `now`
    is Unix seconds; the chain compares with the time of its block, so a close that comes too early is refused with 38.
    """
    if lease.state.ended:
        return None
    if lease.reclamation_ns is None:
        return close_bid(lease.id, reason=reason)
    if lease.state is not LeaseState.RECLAIMING:
        return start_reclaim(lease.id, reason=reason)
    return close_bid(lease.id, reason=reason) if now > lease.reclaim_deadline else None


async def request_close(
    chain: Chain, clock: Clock, lease: LeaseId, *, outcome: Outcome, reason: CloseReason
) -> tuple[Outcome, bool]:
    """Ask the chain to end a lease whose application does not run (kubernetes-objects.md §4.4) or was never sent.

    Returns the outcome with what the provider does about the lease, and whether a message was sent. Raises `ChainError`
    when the chain cannot say how the lease stands.
    """
    found = (await chain.lease(lease)).lease
    if found is None:
        return outcome, False
    message = ending_message(found, reason=reason, now=clock.now())
    if message is None:
        return replace(outcome, reason=f"the provider gives this lease up after its notice: {outcome.reason}"), False
    try:
        await chain.broadcast([message])
    except ChainError as error:
        waits = f"the provider gives this lease up and the chain does not know yet: {outcome.reason}; {error}"
        return replace(outcome, reason=waits, retry=True), False
    _log.warning(f"lifecycle.{reason.name.lower()}", lease=str(lease), reason=outcome.reason)
    return replace(outcome, reason=f"the provider gives this lease up: {outcome.reason}"), True
