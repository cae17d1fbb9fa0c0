"""What the chain says, as frozen data. Prices are per block for the whole group (chain.md §3–4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

from google.protobuf.message import Message as ProtobufMessage

from lease.groups import GroupSpec
from lease.ids import DeploymentId, LeaseId, OrderId
from lease.resources import Attribute, Price

__all__ = [
    "Account",
    "Bid",
    "BidState",
    "Block",
    "Deployment",
    "DeploymentState",
    "Event",
    "Head",
    "Lease",
    "LeaseAnswer",
    "LeaseState",
    "MarketParams",
    "Message",
    "Order",
    "OrderState",
    "ProviderRecord",
    "TxResult",
]

Message: TypeAlias = ProtobufMessage
"""A Msg* of the chain, built by `provider.chain.messages`."""


class OrderState(IntEnum):
    OPEN = 1
    ACTIVE = 2
    CLOSED = 3


class BidState(IntEnum):
    OPEN = 1
    ACTIVE = 2
    LOST = 3
    CLOSED = 4


class LeaseState(IntEnum):
    ACTIVE = 1
    INSUFFICIENT_FUNDS = 2
    CLOSED = 3
    RECLAIMING = 4

    @property
    def ended(self) -> bool:
        """Only these two words of the chain end a lease (docs/architecture.md §2, rule 1)."""
        return self in (LeaseState.INSUFFICIENT_FUNDS, LeaseState.CLOSED)


class DeploymentState(IntEnum):
    ACTIVE = 1
    CLOSED = 2


@dataclass(frozen=True, slots=True)
class Head:
    chain_id: str
    height: int
    time: float
    catching_up: bool
    earliest_height: int = 1


@dataclass(frozen=True, slots=True)
class Event:
    """A typed event: full message name and its fields as decoded JSON (chain.md §8); ids stay dicts."""

    type: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """The Akash events of one height in transaction order, failed transactions left out.

    `missed_from` other than 0: the heights from there to this one could not be read (pruned, or results discarded) and
    whoever lives by events reconciles from state. When it equals `height`, this height itself is unreadable and
    `events` is empty.
    """

    height: int
    events: tuple[Event, ...]
    missed_from: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """`reclamation_ns`: the shortest notice the tenant wants before a lease is dropped; None when he wants none."""

    id: OrderId
    state: OrderState
    spec: GroupSpec
    created_at: int
    reclamation_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Bid:
    """`deposit`: what the chain holds of the provider's for it, by denom; none when its account is closed."""

    id: LeaseId
    state: BidState
    price: Price
    created_at: int
    deposit: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """`reclamation_ns`: the notice that was promised, None for none. `reclaim_deadline`: Unix seconds until which a
    lease whose end was announced runs on; 0 before that. `close_reason`: the chain's number of why it ended
    (chain.md §3), 0 before that.
    """

    id: LeaseId
    state: LeaseState
    price: Price
    created_at: int
    closed_on: int = 0
    reclamation_ns: int | None = None
    reclaim_deadline: int = 0
    close_reason: int = 0


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """One reading of one lease, with where it was read: the unit of proof that a lease ended."""

    lease: Lease | None
    height: int
    chain_id: str


@dataclass(frozen=True, slots=True)
class Deployment:
    id: DeploymentId
    state: DeploymentState
    hash: bytes
    groups: tuple[GroupSpec, ...]
    """In gseq order: gseq is the index + 1."""


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    owner: str
    host_uri: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class MarketParams:
    """`bid_min_deposits`: denom to smallest amount. A reclamation window must lie between the last two."""

    bid_min_deposits: Mapping[str, int]
    order_max_bids: int
    min_reclamation_ns: int = 0
    max_reclamation_ns: int = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Account:
    """Committed number and sequence; `public_key` is 33 bytes, None until the account signed once."""

    number: int
    sequence: int
    public_key: bytes | None


@dataclass(frozen=True, slots=True)
class TxResult:
    hash: str
    height: int
    gas_used: int
    fee: str
