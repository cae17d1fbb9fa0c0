"""Ending a lease by our own word: at once, or after the notice that the bid promised (chain.md §4.2, §14, 3)."""

from __future__ import annotations

from provider.chain.messages import CloseReason, close_bid, start_reclaim
from provider.protocols.chain import Lease, LeaseState, Message

__all__ = ["ending_message"]


def ending_message(lease: Lease, *, reason: CloseReason, now: float) -> Message | None:
    """The one message that brings it nearer to its end; None while its notice runs, and when it has ended. `now` is
    Unix seconds; the chain compares with the time of its block, so a close that comes too early is refused with 38.
    """
    if lease.state.ended:
        return None
    if lease.reclamation_ns is None:
        return close_bid(lease.id, reason=reason)
    if lease.state is not LeaseState.RECLAIMING:
        return start_reclaim(lease.id, reason=reason)
    return close_bid(lease.id, reason=reason) if now > lease.reclaim_deadline else None
