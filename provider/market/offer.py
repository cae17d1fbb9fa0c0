"""The only place where a bid message is made, and only from a decision that the store has written down."""

from __future__ import annotations

from provider.chain import messages
from provider.market.decision import Bid
from provider.market.record.decisions import Recorded
from provider.protocols.chain import Message
from provider.units import Coin

__all__ = ["bid_message"]


def bid_message(recorded: Recorded, *, provider: str, deposit: Coin) -> Message:
    """What is sent is what was decided (bidding.md §1.5). Raises `TypeError` for what is no record of a bid."""
    if not isinstance(recorded, Recorded) or not isinstance(recorded.decision, Bid):
        raise TypeError("a bid needs the record of a decision to bid")
    bid = recorded.decision
    return messages.create_bid(
        recorded.order.bid_by(provider),
        price=bid.price,
        deposit=deposit,
        offer=bid.offer,
        reclamation_s=bid.reclamation_s,
    )
