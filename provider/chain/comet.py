"""`CometChain`: `protocols.Chain` over one node's CometBFT RPC and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from lease.groups import GroupSpec
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute
from provider.chain import queries
from provider.chain.broadcast import Broadcaster, Fees
from provider.chain.follower import follow
from provider.chain.keys import SigningKey
from provider.chain.model import (
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
)  # fmt: skip
from provider.chain.rpc import RpcClient
from provider.errors import ChainError, WrongChain
from provider.protocols import Clock
from provider.settings import Settings

__all__ = ["CometChain"]


class CometChain:
    """One node. `chain_id` empty: taken from the node's first answer, then fixed. Close it at the end (`async with`
    does).
    """

    def __init__(self, settings: Settings, *, clock: Clock, key: SigningKey | None = None, chain_id: str = "") -> None:
        self._rpc = RpcClient(settings.node, clock=clock, timeout=settings.rpc_timeout)
        self._clock = clock
        self._poll_seconds = settings.poll_interval
        self._chain_id = chain_id or settings.chain_id
        fees = Fees(price=settings.gas_prices, adjustment=settings.gas_adjustment)
        self._broadcaster = (
            Broadcaster(self._rpc, key, clock=clock, fees=fees, timeout=settings.tx_timeout) if key else None
        )

    async def __aenter__(self) -> CometChain:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._rpc.close()

    @property
    def address(self) -> str:
        """The RPC address."""
        return self._rpc.address

    async def head(self) -> Head:
        """Where the node stands. Raises `WrongChain` when it serves another chain than the one we know."""
        found = _head(self._rpc.address, await self._rpc.call("status"))
        if self._chain_id and found.chain_id != self._chain_id:
            text = f"serves chain {found.chain_id!r}, ours is {self._chain_id!r}: set AP_NODE or AP_CHAIN_ID right"
            raise WrongChain(self._rpc.address, text)
        self._chain_id = found.chain_id
        return found

    def follow(self, *, after: int) -> AsyncIterator[Block]:
        return follow(self._rpc, after=after, head=self.head, clock=self._clock, poll_seconds=self._poll_seconds)

    async def order(self, order: OrderId) -> Order | None:
        return await queries.order(self._rpc, order)

    async def open_orders(self) -> Sequence[Order]:
        return await queries.open_orders(self._rpc)

    async def group(self, group: GroupId) -> GroupSpec | None:
        found: GroupSpec | None = await queries.group(self._rpc, group)
        return found

    async def deployment(self, deployment: DeploymentId) -> Deployment | None:
        return await queries.deployment(self._rpc, deployment)

    async def bid(self, bid: LeaseId) -> Bid | None:
        return await queries.bid(self._rpc, bid)

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]:
        return await queries.bids(self._rpc, provider, state)

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        """Asks the node for its chain first: only a node of ours proves anything (docs/architecture.md §2)."""
        head = await self.head()
        found, height = await queries.lease(self._rpc, lease)
        return LeaseAnswer(lease=found, height=height or head.height, chain_id=head.chain_id)

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]:
        return await queries.leases(self._rpc, address=provider, states=states, of=deployment)

    async def provider(self, address: str) -> ProviderRecord | None:
        return await queries.provider(self._rpc, address)

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]:
        return await queries.audited_attributes(self._rpc, owner=provider, auditor=auditor)

    async def market_params(self) -> MarketParams:
        return await queries.market_params(self._rpc)

    async def account_public_key(self, address: str) -> bytes | None:
        found = await queries.account(self._rpc, address)
        return found.public_key if found else None

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        if self._broadcaster is None:
            raise ChainError(self._rpc.address, "no key was given, so nothing can be signed")
        return await self._broadcaster.broadcast(messages, await self.head())


def _head(address: str, status: dict[str, Any]) -> Head:
    try:
        sync = status["sync_info"]
        return Head(
            chain_id=str(status["node_info"]["network"]),
            height=int(sync["latest_block_height"]),
            time=_unix(str(sync["latest_block_time"])),
            catching_up=bool(sync["catching_up"]),
            earliest_height=int(sync.get("earliest_block_height") or 1),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ChainError(address, f"status: the answer cannot be read: {error!r}") from error


def _unix(text: str) -> float:
    """RFC 3339 with up to nine decimals, of which Python reads six."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")
