"""The five narrow protocols behind which every effect of the provider lives (docs/architecture.md §3).

Each has a real implementation and a scripted fake in `tests/world/`. Nothing else in `provider/` touches the network, a
process or the time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from lease.groups import GroupSpec
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute
from lease.spec import LeaseSpec
from provider.protocols.chain import (
    Bid,
    BidState,
    Block,
    Deployment,
    Head,
    Lease,
    LeaseAnswer,
    LeaseState,
    MarketParams,
    Message,
    Order,
    ProviderRecord,
    TxResult,
)
from provider.protocols.money import Escrow, LeasePayment
from provider.protocols.objects import Kind, WatchEvent
from stacks.common import Priority, StackResult

__all__ = ["Bus", "Chain", "Clock", "Cluster", "StackEngine", "Subscription"]


class Clock(Protocol):
    """Time. `now` is Unix seconds (UTC), `monotonic` never goes back."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Chain(Protocol):
    """A node of the chain: query, follow, broadcast. Calls are bounded in time and raise `ChainError` naming it."""

    async def head(self) -> Head: ...

    def follow(self, *, after: int) -> AsyncIterator[Block]:
        """Every block with height > `after`, once each and in order, for ever; reconnects by itself."""
        ...

    async def order(self, order: OrderId) -> Order | None: ...

    async def open_orders(self) -> Sequence[Order]: ...

    async def group(self, group: GroupId) -> GroupSpec | None: ...

    async def deployment(self, deployment: DeploymentId) -> Deployment | None: ...

    async def bid(self, bid: LeaseId) -> Bid | None: ...

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]: ...

    async def bidders(self, order: OrderId) -> Mapping[str, BidState]:
        """Who has ever bid on an order: provider to the state of its bid."""
        ...

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        """The lease, and where that was read; `lease` None when the node does not know it, which proves nothing."""
        ...

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]: ...

    async def provider(self, address: str) -> ProviderRecord | None: ...

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]:
        """What `auditor` signed for `provider`, empty when nothing (bidding.md §3.3)."""
        ...

    async def market_params(self) -> MarketParams: ...

    async def account_public_key(self, address: str) -> bytes | None:
        """33-byte compressed secp256k1 key of the account, None if it never signed."""
        ...

    async def lease_payments(self, *, provider: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
        """All leases of a provider, with what the escrow module says of each (chain.md §6)."""
        ...

    async def lease_payment(self, lease: LeaseId) -> LeasePayment | None:
        """Of one lease, ended or not; None when the node does not know it."""
        ...

    async def escrows(self, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
        """Those of these accounts that are open."""
        ...

    async def balances(self, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
        """What an account holds: denom to whole micro-units; of `denoms` alone where some are given."""
        ...

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        """Sign, send and wait for the block. Raises `TxRefused` with codespace and code when the chain says no.

        `NotSent` means that nothing of it is on the chain; any other `ChainError` that this is not known: then saying
        the same again waits for the one on its way. Several messages in one call are one whole; wishes of one message
        share transactions, so whatever may fail by itself is said by itself.
        """
        ...


class Cluster(Protocol):
    """The Kubernetes API: read, watch, small writes of plain manifests. Raises `ClusterError` naming the address."""

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None: ...

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]: ...

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
    ) -> AsyncIterator[WatchEvent]:
        """What exists now, then every change, for ever; re-lists by itself where it must. `known` is what its reader
        has listed before, read once: what of it went before the watch began is told as DELETED, first of all.
        """
        ...

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        """Server-side apply with our field manager (`status`: the status subresource). Returns what is stored."""
        ...

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        """False when it was not there. With `resource_version` only that very version is deleted (else `Conflict`)."""
        ...


class StackEngine(Protocol):
    """What applies lease stacks: one operation a stack at a time, stacks side by side up to the pool's size."""

    async def preview(self, spec: LeaseSpec) -> StackResult: ...

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        """Make the cluster hold exactly what `spec` says. `priority` is its place in the queue for a worker."""
        ...

    async def open(self, opening: LeaseSpec) -> bool:
        """A hint that `up` of this lease comes soon: `opening` is its spec without services, all that is known before
        a manifest. The engine may begin with it; an `up` that does not fit goes the ordinary way. False: not taken.
        """
        ...

    async def give_up(self, stack: str) -> None:
        """Take the hint back: nothing that was opened for the stack goes on."""
        ...

    async def refresh(self, stack: str) -> StackResult: ...

    async def destroy(self, stack: str) -> StackResult:
        """Delete what the stack holds, then the stack itself. A stack that does not exist is a success."""
        ...

    async def stacks(self) -> Sequence[str]:
        """Names of the lease stacks the backend holds."""
        ...


class Subscription(Protocol):
    def __aiter__(self) -> AsyncIterator[object]: ...


class Bus(Protocol):
    """Publish and subscribe inside the provider. A retained value is given to later subscribers at once."""

    def publish(self, topic: str, value: object, *, retain: bool = False) -> None: ...

    def subscribe(self, *topics: str) -> AbstractAsyncContextManager[Subscription]: ...
