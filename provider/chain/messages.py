"""The messages that a provider sends (chain.md §4.1–4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from akash.base.deposit.v1 import types_pb2 as deposit_pb
from akash.cert.v1 import msg_pb2 as cert_msg
from akash.market.v1 import types_pb2 as market_v1_pb
from akash.market.v1beta5 import msg_pb2 as market_msg
from akash.market.v1beta5 import types_pb2 as market_pb
from akash.provider.v1beta4 import msg_pb2 as provider_msg
from akash.provider.v1beta4 import types_pb2 as provider_pb
from cosmos.base.v1beta1 import coin_pb2 as coin_pb
from google.protobuf.duration_pb2 import Duration

from lease.groups import ResourceUnit
from lease.ids import LeaseId
from lease.resources import Attribute, Price
from provider.chain.codec import attributes_to_pb, bid_id_to_pb, lease_id_to_pb, price_to_pb, resources_to_pb
from provider.protocols.chain import Message
from provider.units import Coin

__all__ = [
    "CloseReason",
    "close_bid",
    "create_bid",
    "create_certificate",
    "create_provider",
    "revoke_certificate",
    "start_reclaim",
    "update_provider",
    "withdraw_lease",
]


_REASONS: Any = market_v1_pb.LeaseClosedReason


class CloseReason(IntEnum):
    """The reasons that a provider may give: 10000–19999, also for a bid without a lease (chain.md §4.2)."""

    UNSTABLE = 10000
    DECOMMISSION = 10001
    UNSPECIFIED = 10002
    MANIFEST_TIMEOUT = 10003


def create_bid(
    bid: LeaseId, *, price: Price, deposit: Coin, offer: Iterable[ResourceUnit], reclamation_s: int = 0
) -> Message:
    """A bid. `price`: per block for the whole group. `offer`: the allocated units, sent without prices as the Go
    provider does. `reclamation_s`: the offered reclamation window in seconds; 0 offers none.
    """
    message: Message = market_msg.MsgCreateBid(
        id=bid_id_to_pb(bid),
        price=price_to_pb(price),
        deposit=deposit_pb.Deposit(
            amount=coin_pb.Coin(denom=deposit.denom, amount=str(int(deposit.amount))),
            sources=["balance"],
        ),
        resources_offer=[
            market_pb.ResourceOffer(resources=resources_to_pb(unit.resources), count=unit.count) for unit in offer
        ],
        reclamation_window=Duration(seconds=reclamation_s) if reclamation_s else None,
    )
    return message


def close_bid(bid: LeaseId, *, reason: CloseReason = CloseReason.UNSPECIFIED) -> Message:
    """Close an open bid, or end the lease that it became (the group pauses)."""
    message: Message = market_msg.MsgCloseBid(id=bid_id_to_pb(bid), reason=_REASONS.Name(int(reason)))
    return message


def withdraw_lease(lease: LeaseId) -> Message:
    """Settle the deployment's account and pay this lease's balance."""
    message: Message = market_msg.MsgWithdrawLease(id=lease_id_to_pb(lease))
    return message


def start_reclaim(lease: LeaseId, *, reason: CloseReason = CloseReason.UNSPECIFIED) -> Message:
    """Announce the end of a lease that has a reclamation window; once per lease, before `close_bid` (chain.md §4.2)."""
    message: Message = market_msg.MsgLeaseStartReclaim(id=lease_id_to_pb(lease), reason=_REASONS.Name(int(reason)))
    return message


def create_certificate(owner: str, *, certificate: str, public_key: str) -> Message:
    """Publish an account certificate; both texts are PEM, as chain.md §4.4 demands them."""
    message: Message = cert_msg.MsgCreateCertificate(owner=owner, cert=certificate.encode(), pubkey=public_key.encode())
    return message


def revoke_certificate(owner: str, serial: int) -> Message:
    """Revoke an account certificate; the chain never takes it back."""
    message: Message = cert_msg.MsgRevokeCertificate(id={"owner": owner, "serial": str(serial)})
    return message


def create_provider(
    owner: str, *, host_uri: str, attributes: Iterable[Attribute], email: str = "", website: str = ""
) -> Message:
    """`host_uri` is `https://host:port` without a path."""
    info = provider_pb.Info(email=email, website=website)
    message: Message = provider_msg.MsgCreateProvider(
        owner=owner, host_uri=host_uri, attributes=attributes_to_pb(attributes), info=info
    )
    return message


def update_provider(
    owner: str, *, host_uri: str, attributes: Iterable[Attribute], email: str = "", website: str = ""
) -> Message:
    """Replace the whole provider record."""
    info = provider_pb.Info(email=email, website=website)
    message: Message = provider_msg.MsgUpdateProvider(
        owner=owner, host_uri=host_uri, attributes=attributes_to_pb(attributes), info=info
    )
    return message
