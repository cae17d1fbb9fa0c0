"""`CometChain`: the port `protocols.Chain` over the CometBFT RPC of one or several nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from decimal import Decimal

from lease.groups import GroupSpec
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute
from provider.chain import money_queries, oracle_query, queries
from provider.chain.broadcast import Broadcaster
from provider.chain.connection import Connection
from provider.chain.follower import follow
from provider.chain.keys import SigningKey
from provider.chain.nodes import NodeView, unix_seconds
from provider.chain.rpc import RpcClient
from provider.chain.signed_ends import SignedEnds
from provider.chain.tx.journal import Journal
from provider.chain.tx.policy import Fence, policy_from
from provider.errors import ChainError
from provider.protocols import Clock
from provider.protocols.chain import (
    Bid,
    BidState,
    Block,
    CertificateState,
    Deployment,
    Escrow,
    Head,
    Lease,
    LeaseAnswer,
    LeasePayment,
    LeaseState,
    MarketParams,
    Message,
    Order,
    ProviderRecord,
    PublishedCertificate,
    TxResult,
)  # fmt: skip
from provider.settings import Settings
from provider.tls import ClientTls

__all__ = ["CometChain"]


class CometChain:
    """`chain_id` empty: taken from the first node that answers, then fixed. Close it at the end (`async with` does)."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        key: SigningKey | None = None,
        chain_id: str = "",
        journal: Journal | None = None,
        fence: Fence | None = None,
    ) -> None:
        self._rpc = RpcClient(
            ",".join(settings.nodes),
            clock=clock,
            timeout=settings.rpc_timeout,
            chain_id=chain_id or settings.chain_id,
            tls=ClientTls(settings.node_tls) if settings.node_tls else None,
        )
        self._ends = SignedEnds(self._rpc)
        self._clock = clock
        self._poll_seconds = settings.poll_interval
        policy = policy_from(settings, fence=fence)
        self._broadcaster = (
            Broadcaster(self._rpc, key, head=self.head, clock=clock, policy=policy, journal=journal) if key else None
        )

    async def __aenter__(self) -> CometChain:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._broadcaster is not None:
            await self._broadcaster.close()
        await self._rpc.close()

    @property
    def address(self) -> str:
        """The RPC address in use, without secrets."""
        return self._rpc.address

    @property
    def chain_id(self) -> str:
        """Empty while it is neither set nor learned from a node."""
        return self._rpc.chain_id

    def expect(self, chain_id: str) -> None:
        """Use only nodes of this chain from now on; empty: of the chain that the first node serves."""
        self._rpc.chain_id = chain_id

    def fee_budget(self) -> int:
        """Most that fees may cost in 24 hours; 0: no limit, or no key."""
        return self._broadcaster.outbox.policy.fee_budget if self._broadcaster is not None else 0

    def limit_fees(self, *, transaction: int, day: int) -> None:
        """Take other limits for the transactions from now on; 0: no limit."""
        if self._broadcaster is not None:
            self._broadcaster.outbox.limit_fees(transaction=transaction, day=day)

    def fee_problem(self) -> str:
        """Why the last transaction was not signed because of its gas or fee; empty when it was."""
        return self._broadcaster.fee_problem if self._broadcaster is not None else ""

    def nodes(self) -> tuple[NodeView, ...]:
        """Every node with its health, in the order of preference."""
        return self._rpc.views()

    async def head(self) -> Head:
        """The head of the node in use. Raises `WrongChain` when no node serves the expected chain."""
        return await self._rpc.head()

    async def block_time(self, height: int) -> float:
        found = await self._rpc.on_any_node(lambda node: node.call("header", {"height": str(height)}))
        try:
            return unix_seconds(str(found["header"]["time"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ChainError(self._rpc.address, f"header {height}: the answer cannot be read: {error!r}") from error

    def follow(self, *, after: int) -> AsyncIterator[Block]:
        return follow(self._rpc, after=after, clock=self._clock, poll_seconds=self._poll_seconds)

    async def order(self, order: OrderId) -> Order | None:
        return await queries.order(self._rpc, order)

    async def open_orders(self) -> Sequence[Order]:
        return await queries.open_orders(self._rpc)

    async def group(self, group: GroupId) -> GroupSpec | None:
        found: GroupSpec | None = await queries.group(self._rpc, group)
        return found

    async def deployment(self, deployment: DeploymentId) -> Deployment | None:
        return await queries.deployment(self._rpc, deployment)

    async def deployment_on_each_node(self, deployment: DeploymentId) -> Sequence[Deployment]:
        """The deployment as each named node reports it that answers and knows it; empty when one node only is named."""
        if not self._rpc.several:
            return ()
        found = await self._rpc.on_each_node(lambda node: queries.deployment(node, deployment))
        return [each for each in found if each is not None]

    async def bid(self, bid: LeaseId) -> Bid | None:
        return await queries.bid(self._rpc, bid)

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]:
        return await queries.bids(self._rpc, provider, state)

    async def bidders(self, order: OrderId) -> Mapping[str, BidState]:
        return await queries.bidders(self._rpc, order)

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        """The lease as one node reports it, after that node's chain was checked: only a node of the expected chain
        proves anything (docs/architecture.md §2).
        """
        return await self._rpc.on_one_node(lambda node: self._lease_of(node, lease))

    async def lease_on_each_node(self, lease: LeaseId) -> Sequence[LeaseAnswer]:
        """The lease as each named node reports it that answers; empty when one node only is named. Raises `ChainError`
        when several are named and none answers.
        """
        if not self._rpc.several:
            return ()
        found = await self._rpc.on_each_node(lambda node: self._lease_of(node, lease))
        if not found:
            raise ChainError(self._rpc.address, f"no node answers about lease {lease}")
        return found

    async def _lease_of(self, node: Connection, lease: LeaseId) -> LeaseAnswer:
        head = await self._rpc.head_of(node)
        found, height = await queries.lease(node, lease)
        return LeaseAnswer(found, height or head.height, head.chain_id, node.address)

    async def end_signer(self, lease: Lease) -> str:
        return await self._ends.signer(lease)

    async def notice_signed(self, lease: Lease) -> bool:
        return await self._ends.notice_signed(lease)

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]:
        return await queries.leases(self._rpc, address=provider, states=states, of=deployment)

    async def leases_on_each_node(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId
    ) -> Sequence[Lease]:
        if not self._rpc.several:
            return ()
        found = await self._rpc.on_each_node(
            lambda node: queries.leases(node, address=provider, states=states, of=deployment)
        )
        return [lease for leases in found for lease in leases]

    async def provider(self, address: str) -> ProviderRecord | None:
        return await queries.provider(self._rpc, address)

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]:
        return await queries.audited_attributes(self._rpc, owner=provider, auditor=auditor)

    async def market_params(self) -> MarketParams:
        return await queries.market_params(self._rpc)

    async def lease_payments(self, *, provider: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
        return await money_queries.lease_payments(self._rpc, address=provider, states=states)

    async def lease_payment(self, lease: LeaseId) -> LeasePayment | None:
        return await money_queries.lease_payment(self._rpc, lease)

    async def escrows(self, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
        return await money_queries.escrows(self._rpc, deployments)

    async def akt_price(self) -> tuple[Decimal, float]:
        """USD for one AKT by the chain's oracle, and when (Unix seconds). Raises `ChainError`."""
        return await oracle_query.akt_price(self._rpc)

    async def balances(self, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
        return await money_queries.balances(self._rpc, address, denoms=denoms)

    async def certificate(self, owner: str, serial: int) -> PublishedCertificate | None:
        return await queries.certificate(self._rpc, owner, serial)

    async def certificate_state(self, owner: str, serial: int) -> CertificateState:
        return await queries.certificate_state(self._rpc, owner, serial)

    async def account_public_key(self, address: str) -> bytes | None:
        found = await queries.account(self._rpc, address)
        return found.public_key if found else None

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        if self._broadcaster is None:
            raise ChainError(self._rpc.address, "nothing can be signed without a key")
        return await self._broadcaster.broadcast(messages)
