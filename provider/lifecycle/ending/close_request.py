"""The provider's request to the chain to end a lease: at once, or by the notice that the bid promised (`notice`).

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


def ending_message(lease: Lease, *, reason: CloseReason) -> Message | None:
    """The message that ends an active lease, or begins the notice that its bid has promised; None for another lease."""
    if lease.state is not LeaseState.ACTIVE:
        return None
    if lease.reclamation_ns is None:
        return close_bid(lease.id, reason=reason)
    return start_reclaim(lease.id, reason=reason)


async def request_close(
    chain: Chain, clock: Clock, lease: LeaseId, *, outcome: Outcome, reason: CloseReason
) -> tuple[Outcome, bool]:
    """Ask the chain to end a lease whose application does not run (kubernetes-objects.md §4.4) or was never sent.

    Returns the outcome with what the provider does about the lease, and whether a message was sent. Raises `ChainError`
    when the chain cannot say how the lease stands.
    """
    found = (await chain.lease(lease)).lease
    message = ending_message(found, reason=reason) if found is not None else None
    if message is None:
        return outcome, False
    try:
        await chain.broadcast([message])
    except ChainError as error:
        waits = f"the provider gives this lease up and the chain does not know yet: {outcome.reason}; {error}"
        return replace(outcome, reason=waits, retry=True), False
    _log.warning(f"lifecycle.{reason.name.lower()}", lease=str(lease), reason=outcome.reason)
    return replace(outcome, reason=f"the provider gives this lease up: {outcome.reason}"), True
