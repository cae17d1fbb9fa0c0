"""Checks of identifiers before a block, and their text forms (chain.md §2)."""

from __future__ import annotations

from typing import Any

from akash.deployment.v1.types_pb2 import GroupID
from akash.market.v1.types_pb2 import LeaseID, OrderID

from devnet.chain.errors import Kind
from devnet.chain.keys import valid_address
from devnet.chain.wire import Message

__all__ = [
    "INVALID_ADDRESS",
    "bid_xid",
    "check_bid",
    "check_deployment",
    "check_group",
    "deployment_xid",
    "group_id",
    "key",
    "lease_id",
    "order_id",
    "payment_xid",
]

INVALID_ADDRESS = Kind("sdk", 7, "invalid address")
_INVALID_SEQUENCE = Kind("sdk", 3, "invalid sequence")
_CONFLICT = Kind("sdk", 36, "conflict")
_FIELDS = ("owner", "dseq", "gseq", "oseq", "provider")


def key(message: Message) -> tuple[Any, ...]:
    """The key of the record with this id, without bseq, which is always 0."""
    known = message.DESCRIPTOR.fields_by_name
    return tuple(getattr(message, name) for name in _FIELDS if name in known)


def group_id(deployment: Message, gseq: int) -> Message:
    return GroupID(owner=deployment.owner, dseq=deployment.dseq, gseq=gseq)


def order_id(group: Message, oseq: int) -> Message:
    return OrderID(owner=group.owner, dseq=group.dseq, gseq=group.gseq, oseq=oseq)


def lease_id(bid: Message) -> Message:
    return LeaseID(**dict(zip(_FIELDS, key(bid), strict=True)))


def deployment_xid(message: Message) -> str:
    """The id of the escrow account of the deployment to which this id belongs."""
    return f"{message.owner}/{message.dseq}"


def bid_xid(bid: Message) -> str:
    """The id of the escrow account with a bid's deposit."""
    return "/".join(str(part) for part in key(bid))


def payment_xid(bid: Message) -> str:
    return f"{bid.gseq}/{bid.oseq}/{bid.provider}"


def check_deployment(message: Message, prefix: str = "DeploymentID: ") -> None:
    if not valid_address(message.owner):
        raise INVALID_ADDRESS(f"{prefix}Invalid Owner Address")
    if message.dseq == 0:
        raise _INVALID_SEQUENCE(f"{prefix}Invalid Deployment Sequence")


def check_group(message: Message, prefix: str = "GroupID: ") -> None:
    check_deployment(message, f"{prefix}DeploymentID: ")
    if message.gseq == 0:
        raise _INVALID_SEQUENCE(f"{prefix}Invalid Group Sequence")


def check_bid(message: Message, prefix: str = "BidID: ") -> None:
    """The text form of the id of a bid or a lease."""
    order = f"{prefix}Invalid OrderID: OrderID: "
    check_group(message, f"{order}Invalid GroupID: GroupID: ")
    if message.oseq == 0:
        raise _INVALID_SEQUENCE(f"{order}Invalid Order Sequence")
    if not valid_address(message.provider):
        raise INVALID_ADDRESS(f"{prefix}Invalid Provider Address")
    if message.owner == message.provider:
        raise _CONFLICT(f"{prefix}self-bid")
    if message.bseq != 0:
        raise _CONFLICT(f"{prefix}invalid bseq")
