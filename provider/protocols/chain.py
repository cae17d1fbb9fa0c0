"""The chain: the frozen data that is read from it, and the port behind which it lives.

Prices are per block for the whole group (chain.md §3–4). Amounts of escrow are those of the last settlement (chain.md
§6): nothing changes per block, and `provider.funds.escrow` computes what is left at a height.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message as ProtobufMessage

from lease.groups import GroupSpec
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute, Price

__all__ = [
    "Account",
    "Bid",
    "BidState",
    "Block",
    "CertificateState",
    "Chain",
    "Deployment",
    "DeploymentState",
    "Escrow",
    "EscrowState",
    "Event",
    "Head",
    "Lease",
    "LeaseAnswer",
    "LeasePayment",
    "LeaseState",
    "MarketParams",
    "Message",
    "Order",
    "OrderState",
    "Payment",
    "ProviderRecord",
    "PublishedCertificate",
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
        """Whether the lease has ended: only these two states end a lease (docs/architecture.md §2, rule 1)."""
        return self in (LeaseState.INSUFFICIENT_FUNDS, LeaseState.CLOSED)


class DeploymentState(IntEnum):
    ACTIVE = 1
    CLOSED = 2


class CertificateState(IntEnum):
    ABSENT = 0
    VALID = 1
    REVOKED = 2


@dataclass(frozen=True, slots=True)
class PublishedCertificate:
    """An account certificate on the chain. `certificate` and `public_key` are PEM (chain.md §4.4)."""

    state: CertificateState
    certificate: bytes
    public_key: bytes


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

    `missed_from` other than 0: the heights from there to this one could not be read (pruned, or results discarded), and
    subscribers must reconcile from state. When it equals `height`, this height itself is unreadable and `events` is
    empty.
    """

    height: int
    events: tuple[Event, ...]
    missed_from: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """`reclamation_ns`: the shortest notice that the tenant demands before a lease is reclaimed; None for no demand."""

    id: OrderId
    state: OrderState
    spec: GroupSpec
    created_at: int
    reclamation_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Bid:
    """`deposit`: the provider's deposit for the bid, by denom; empty when its escrow account is closed."""

    id: LeaseId
    state: BidState
    price: Price
    created_at: int
    deposit: tuple[Price, ...] = ()


@dataclass(frozen=True, slots=True)
class Lease:
    """`reclamation_ns`: the promised notice, None without one. `reclaim_deadline`: Unix seconds until which the lease
    runs after its reclamation was announced at height `reclaim_started`, else 0; `reclaim_reason`: the chain's number
    for the reason. `close_reason`: the number for the reason of the end (chain.md §3), 0 before the end.
    """

    id: LeaseId
    state: LeaseState
    price: Price
    created_at: int
    closed_on: int = 0
    reclamation_ns: int | None = None
    reclaim_deadline: int = 0
    close_reason: int = 0
    reclaim_reason: int = 0
    reclaim_started: int = 0


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """One reading of one lease, with its height and chain: the unit of proof that a lease ended. `lease` None: the node
    does not know the lease, which proves nothing. `node`: the address of the node that answered.
    """

    lease: Lease | None
    height: int
    chain_id: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Deployment:
    """`groups` are in the order of gseq: gseq is the index + 1."""

    id: DeploymentId
    state: DeploymentState
    hash: bytes
    groups: tuple[GroupSpec, ...]


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    owner: str
    host_uri: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class MarketParams:
    """`bid_min_deposits`: denom to the smallest deposit. A reclamation window must lie between the last two fields."""

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
    """The caller's part of a transaction in a block. `fee` is a coin as text (`500uakt`)."""

    hash: str
    height: int
    gas_used: int
    fee: str


class EscrowState(IntEnum):
    OPEN = 1
    CLOSED = 2
    OVERDRAWN = 3


@dataclass(frozen=True, slots=True)
class Payment:
    """The payment of a deployment for one lease. `rate`: per block. `balance`: settled and not yet withdrawn.
    `unsettled`: a debt. `withdrawn`: the total paid out. Amounts are micro-units of the rate's denom.
    """

    lease: LeaseId
    state: EscrowState
    rate: Price
    balance: Decimal
    unsettled: Decimal
    withdrawn: Decimal


@dataclass(frozen=True, slots=True)
class LeasePayment:
    """A lease and its payment; None when the node reports no payment."""

    lease: Lease
    payment: Payment | None


@dataclass(frozen=True, slots=True)
class Escrow:
    """The escrow account of a deployment at height `settled_at`, with the rates of all its open payments to any
    provider.
    """

    deployment: DeploymentId
    state: EscrowState
    settled_at: int
    funds: Mapping[str, Decimal]
    rates: Sequence[Price]


class Chain(Protocol):
    """The chain: query, follow, broadcast. Calls are bounded in time and raise `ChainError` with the node's address."""

    async def head(self) -> Head: ...

    async def block_time(self, height: int) -> float:
        """The time of a block, Unix seconds. Raises `ChainError`, also when the node does not have the block."""
        ...

    def follow(self, *, after: int) -> AsyncIterator[Block]:
        """Every block with a height above `after`, once each and in order, for ever; reconnects by itself."""
        ...

    async def order(self, order: OrderId) -> Order | None: ...

    async def open_orders(self) -> Sequence[Order]: ...

    async def group(self, group: GroupId) -> GroupSpec | None: ...

    async def deployment(self, deployment: DeploymentId) -> Deployment | None: ...

    async def deployment_on_each_node(self, deployment: DeploymentId) -> Sequence[Deployment]:
        """The deployment as each named node reports it that answers and knows it; empty when one node only is named."""
        ...

    async def bid(self, bid: LeaseId) -> Bid | None: ...

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]: ...

    async def bidders(self, order: OrderId) -> Mapping[str, BidState]:
        """Every provider that ever bid on the order, with the state of its bid."""
        ...

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        """One reading of the lease."""
        ...

    async def lease_on_each_node(self, lease: LeaseId) -> Sequence[LeaseAnswer]:
        """One reading of the lease by each named node that answers; empty when one node only is named. Raises
        `ChainError` when several are named and none answers.
        """
        ...

    async def leases_on_each_node(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId
    ) -> Sequence[Lease]:
        """The leases of the deployment as each named node reports them that answers, one after the other; empty when
        one node only is named.
        """
        ...

    async def end_signer(self, lease: Lease) -> str:
        """The owner or the provider of an ended lease, if a transaction that this account signed ends the lease in the
        block of its end; else empty. The signature is checked, so a node cannot make one up.
        """
        ...

    async def notice_signed(self, lease: Lease) -> bool:
        """Whether the provider signed the announcement of the lease's reclamation, in the block at `reclaim_started`.
        The signature is checked, so a node cannot make one up.
        """
        ...

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]: ...

    async def provider(self, address: str) -> ProviderRecord | None: ...

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]:
        """The attributes that `auditor` signed for `provider`, empty when there are none (bidding.md §3.3)."""
        ...

    async def market_params(self) -> MarketParams: ...

    async def certificate(self, owner: str, serial: int) -> PublishedCertificate | None:
        """The account certificate of `owner` with this serial, None when the chain has none (chain.md §4.4)."""
        ...

    async def certificate_state(self, owner: str, serial: int) -> CertificateState:
        """The state of the account certificate of `owner` with this serial (chain.md §4.4)."""
        ...

    async def account_public_key(self, address: str) -> bytes | None:
        """The 33-byte compressed secp256k1 key of the account, None when it never signed."""
        ...

    async def lease_payments(self, *, provider: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
        """All leases of a provider in these states, with their payments (chain.md §6)."""
        ...

    async def lease_payment(self, lease: LeaseId) -> LeasePayment | None:
        """One lease, ended or not, with its payment; None when the node does not know it."""
        ...

    async def escrows(self, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
        """The open escrow accounts of these deployments."""
        ...

    async def balances(self, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
        """The balances of an account: denom to whole micro-units; only of `denoms` when some are given."""
        ...

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        """Sign, send and wait for the block. Raises `TxRefused` with codespace and code when the chain refuses.

        `NotSent` means that none of the messages is on the chain; any other `ChainError` that the outcome is not known:
        the same call then waits for the pending transaction. The messages of one call take effect together or not at
        all. Calls with one message share transactions, so messages that may fail independently need calls of their own.
        """
        ...
