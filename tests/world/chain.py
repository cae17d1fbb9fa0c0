"""A chain in memory, scripted by the test: its state is plain dicts, its blocks are those that are pushed.

Market messages that are broadcast change the state as chain.md §3 says, and make the events, but in no block before
`push`. Kept: one bid a provider an order for ever, closing only what is open, losers that stay open (chain.md §14,
1). Money only where a test fills `payments` and `accounts`, one lease a deployment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lease.groups import GroupSpec
from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from lease.resources import Attribute, Price
from provider.chain import events as kinds
from provider.chain.codec import lease_id_from_pb, price_from_pb
from provider.errors import TxRefused
from provider.protocols.chain import (
    Bid,
    BidState,
    Block,
    CertificateState,
    Deployment,
    Escrow,
    EscrowState,
    Event,
    Head,
    Lease,
    LeaseAnswer,
    LeasePayment,
    LeaseState,
    MarketParams,
    Message,
    Order,
    OrderState,
    Payment,
    ProviderRecord,
    PublishedCertificate,
    TxResult,
)

__all__ = ["FakeChain", "event_of"]


_PRICE = Price("uakt", Decimal(1))


def event_of(kind: str, item: OrderId | LeaseId | GroupId | DeploymentId) -> Event:
    """A typed event as `block_results` gives it: 64-bit numbers quoted, u32 bare (chain.md §8)."""
    names = [name for name in ("owner", "dseq", "gseq", "oseq", "provider") if hasattr(item, name)]
    fields: dict[str, Any] = {name: getattr(item, name) for name in names}
    return Event(kind, {"id": {**fields, "dseq": str(item.dseq)}})


class FakeChain:
    """`protocols.Chain`. `before` is called with the name of each call and may raise; `calls` remembers them."""

    address = "fake"

    def __init__(self, *, chain_id: str = "fake-1", height: int = 100) -> None:
        self.chain_id = chain_id
        self.height = height
        self.catching_up = False
        self.before: Callable[[str], None] = lambda name: None
        self.gate: asyncio.Event | None = None
        """When set to an event, broadcasts wait for it after the message took effect."""
        self.gates: dict[str, asyncio.Event] = {}
        """Calls that wait for an event, by name."""
        self.lies: list[LeaseAnswer | Exception] = []
        """What the next questions about leases get instead of the truth."""
        self.block_s = 6.0
        self.other_deployments: list[Deployment] = []
        """What other named nodes report about a deployment."""
        self.other_leases: list[Lease] = []
        """The leases that other named nodes report."""
        self.others: list[Callable[[LeaseId], LeaseAnswer]] = []
        """What other named nodes say about a lease; none: this is the only node."""
        self.end_signers: dict[LeaseId, str] = {}
        """Who signed the transaction that ended a lease; `close_lease` notes the owner."""
        self.notices_signed = True
        """Whether the provider signed the announcement of each reclamation."""
        self.rises = False
        """Whether each answer about a lease is of one height more."""
        self.executes = True
        """False: messages are taken and change nothing."""
        self.orders: dict[OrderId, Order] = {}
        self.bid_states: dict[LeaseId, Bid] = {}
        self.lease_states: dict[LeaseId, Lease] = {}
        self.deployments: dict[DeploymentId, Deployment] = {}
        self.providers: dict[str, ProviderRecord] = {}
        self.audits: dict[tuple[str, str], tuple[Attribute, ...]] = {}
        self.certificates: dict[tuple[str, int], CertificateState] = {}
        self.published: dict[tuple[str, int], PublishedCertificate] = {}
        self.public_keys: dict[str, bytes] = {}
        self.payments: dict[LeaseId, Payment] = {}
        self.accounts: dict[DeploymentId, Escrow] = {}
        self.params = MarketParams({"uakt": 500000, "uact": 500000}, 20)
        self.wallet: dict[str, int] = {"uakt": 10**9, "uact": 10**9}
        self.sent: list[Message] = []
        self.calls: list[str] = []
        self.pending: list[Event] = []
        self.blocks: list[Block] = []
        self._new_block = asyncio.Condition()

    # the test's side

    def add_order(self, order: Order) -> Event:
        self.orders[order.id] = order
        self.pending.append(event_of(kinds.ORDER_CREATED, order.id))
        return self.pending[-1]

    def close_order(self, order: OrderId) -> None:
        self.orders[order] = replace(self.orders[order], state=OrderState.CLOSED)
        self.pending.append(event_of(kinds.ORDER_CLOSED, order))

    def create_lease(self, bid: LeaseId) -> None:
        """The tenant takes `bid`, ours or a stranger's; other bids stay open."""
        price = self.bid_states[bid].price if bid in self.bid_states else self.orders[bid.order].spec.units[0].price
        self.orders[bid.order] = replace(self.orders[bid.order], state=OrderState.ACTIVE)
        self.bid_states[bid] = Bid(bid, BidState.ACTIVE, price, self.height)
        self.lease_states[bid] = Lease(bid, LeaseState.ACTIVE, price, self.height)
        self.pending.append(event_of(kinds.LEASE_CREATED, bid))

    def close_lease(self, lease: LeaseId) -> None:
        self.end_signers[lease] = lease.owner
        self.lease_states[lease] = replace(self.lease_states[lease], state=LeaseState.CLOSED, closed_on=self.height)
        self.bid_states[lease] = replace(self.bid_states[lease], state=BidState.CLOSED)
        self.orders[lease.order] = replace(self.orders[lease.order], state=OrderState.CLOSED)
        self.pending += [event_of(kinds.LEASE_CLOSED, lease), event_of(kinds.BID_CLOSED, lease)]
        self.pending.append(event_of(kinds.ORDER_CLOSED, lease.order))

    def put_lease(self, lease: LeaseId, state: LeaseState, *, price: Price = _PRICE) -> None:
        """State a lease without its order, its bid and an event."""
        self.lease_states[lease] = Lease(lease, state, price, 1)

    async def push(self, *events: Event, missed_from: int = 0) -> Block:
        """The next block: what happened since the last one, and `events`."""
        self.height += 1
        block = Block(self.height, (*self.pending, *events), missed_from)
        self.pending = []
        async with self._new_block:
            self.blocks.append(block)
            self._new_block.notify_all()
        return block

    # the provider's side

    async def head(self) -> Head:
        await self._called("head")
        return Head(self.chain_id, self.height, 0.0, self.catching_up)

    async def block_time(self, height: int) -> float:
        """Blocks of `block_s` seconds; the head is at time 0."""
        await self._called("block_time")
        return (height - self.height) * self.block_s

    async def follow(self, *, after: int) -> AsyncIterator[Block]:
        seen = 0
        while True:
            while seen < len(self.blocks):
                seen += 1
                if self.blocks[seen - 1].height > after:
                    yield self.blocks[seen - 1]
            async with self._new_block:
                if seen >= len(self.blocks):
                    await self._new_block.wait()

    async def order(self, order: OrderId) -> Order | None:
        await self._called("order")
        return self.orders.get(order)

    async def open_orders(self) -> Sequence[Order]:
        await self._called("open_orders")
        return [order for order in self.orders.values() if order.state is OrderState.OPEN]

    async def group(self, group: GroupId) -> GroupSpec | None:
        await self._called("group")
        return next((order.spec for order in self.orders.values() if order.id.group == group), None)

    async def deployment(self, deployment: DeploymentId) -> Deployment | None:
        await self._called("deployment")
        return self.deployments.get(deployment)

    async def deployment_on_each_node(self, deployment: DeploymentId) -> Sequence[Deployment]:
        await self._called("deployment_on_each_node")
        return self.other_deployments

    async def bid(self, bid: LeaseId) -> Bid | None:
        await self._called("bid")
        return self.bid_states.get(bid)

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]:
        await self._called("bids")
        return [bid for bid in self.bid_states.values() if bid.id.provider == provider and bid.state is state]

    async def bidders(self, order: OrderId) -> Mapping[str, BidState]:
        await self._called("bidders")
        return {bid.id.provider: bid.state for bid in self.bid_states.values() if bid.id.order == order}

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        await self._called("lease")
        if self.lies:
            return self._lie()
        self.height += self.rises
        return self.truth(lease)

    def truth(self, lease: LeaseId) -> LeaseAnswer:
        return LeaseAnswer(self.lease_states.get(lease), self.height, self.chain_id, self.address)

    async def lease_on_each_node(self, lease: LeaseId) -> Sequence[LeaseAnswer]:
        await self._called("lease_on_each_node")
        return [await self.lease(lease), *(say(lease) for say in self.others)] if self.others else []

    async def end_signer(self, lease: Lease) -> str:
        await self._called("end_signer")
        return self.end_signers.get(lease.id, "")

    async def notice_signed(self, lease: Lease) -> bool:
        await self._called("notice_signed")
        return self.notices_signed

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]:
        await self._called("leases")
        if self.lies and isinstance(self.lies[0], Exception):
            self._lie()
        return [
            lease
            for lease in self.lease_states.values()
            if lease.id.provider == provider and lease.state in states and deployment in (None, lease.id.deployment)
        ]

    async def leases_on_each_node(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId
    ) -> Sequence[Lease]:
        await self._called("leases_on_each_node")
        return [one for one in self.other_leases if one.id.deployment == deployment and one.state in states]

    async def provider(self, address: str) -> ProviderRecord | None:
        await self._called("provider")
        return self.providers.get(address)

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]:
        await self._called("audited_attributes")
        return self.audits.get((provider, auditor), ())

    async def market_params(self) -> MarketParams:
        await self._called("market_params")
        return self.params

    async def certificate(self, owner: str, serial: int) -> PublishedCertificate | None:
        await self._called("certificate")
        return self.published.get((owner, serial))

    async def certificate_state(self, owner: str, serial: int) -> CertificateState:
        await self._called("certificate_state")
        return self.certificates.get((owner, serial), CertificateState.ABSENT)

    async def account_public_key(self, address: str) -> bytes | None:
        await self._called("account_public_key")
        return self.public_keys.get(address)

    async def lease_payments(self, *, provider: str, states: Sequence[LeaseState]) -> Sequence[LeasePayment]:
        await self._called("lease_payments")
        found = await self.leases(provider=provider, states=states)
        return [LeasePayment(lease, self.payments.get(lease.id)) for lease in found]

    async def lease_payment(self, lease: LeaseId) -> LeasePayment | None:
        await self._called("lease_payment")
        found = self.lease_states.get(lease)
        return None if found is None else LeasePayment(found, self.payments.get(lease))

    async def escrows(self, deployments: Collection[DeploymentId]) -> Mapping[DeploymentId, Escrow]:
        await self._called("escrows")
        return {item: self.accounts[item] for item in deployments if item in self.accounts}

    async def balances(self, address: str, *, denoms: Collection[str] = ()) -> Mapping[str, int]:
        await self._called("balances")
        return {denom: self.wallet.get(denom, 0) for denom in denoms} if denoms else dict(self.wallet)

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        await self._called("broadcast")
        await asyncio.sleep(0)
        for message in messages:
            if self.executes:
                self._execute(message)
            self.sent.append(message)
        if self.gate is not None:
            await self.gate.wait()
        return TxResult(f"{len(self.sent):064X}", self.height + 1, 100_000, "2500uakt")

    def sent_kinds(self) -> list[str]:
        return [message.DESCRIPTOR.name for message in self.sent]

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        self.before(name)
        if name in self.gates:
            await self.gates[name].wait()

    def _lie(self) -> LeaseAnswer:
        lie = self.lies.pop(0)
        if isinstance(lie, Exception):
            raise lie
        return lie

    def _execute(self, message: Any) -> None:
        bid = lease_id_from_pb(message.id)
        match message.DESCRIPTOR.name:
            case "MsgCreateBid":
                self._create_bid(bid, message)
            case "MsgCloseBid":
                self._close_bid(bid)
            case "MsgWithdrawLease":
                self._withdraw(bid)
            case other:
                raise NotImplementedError(other)

    def _create_bid(self, bid: LeaseId, message: Any) -> None:
        order = self.orders.get(bid.order)
        if order is None:
            raise TxRefused(self.address, codespace="market", code=15, log="order not found")
        if order.state is not OrderState.OPEN:
            raise TxRefused(self.address, codespace="market", code=24, log="order closed")
        if bid in self.bid_states:
            raise TxRefused(self.address, codespace="market", code=21, log="bid exists from provider")
        self.bid_states[bid] = Bid(bid, BidState.OPEN, price_from_pb(message.price), self.height)
        self.pending.append(event_of(kinds.BID_CREATED, bid))

    def _withdraw(self, lease: LeaseId) -> None:
        """Pays what is due; an account with less than that is closed with all its leases (chain.md §6)."""
        if self.lease_states[lease].state.ended:
            raise TxRefused(self.address, codespace="market", code=10, log="lease closed")
        account, payment = self.accounts[lease.deployment], self.payments[lease]
        denom, owed = payment.rate.denom, payment.rate.amount * (self.height + 1 - account.settled_at)
        paid = min(owed, account.funds[denom])
        funds = {**account.funds, denom: account.funds[denom] - paid}
        self.accounts[lease.deployment] = replace(account, settled_at=self.height + 1, funds=funds)
        due = payment.balance + paid
        self.payments[lease] = replace(payment, balance=due % 1, withdrawn=payment.withdrawn + due // 1)
        if paid < owed:
            del self.accounts[lease.deployment]
            self.payments[lease] = replace(self.payments[lease], state=EscrowState.OVERDRAWN)
            self.close_lease(lease)

    def _close_bid(self, bid: LeaseId) -> None:
        found = self.bid_states.get(bid)
        if found is None or found.state is not BidState.OPEN:
            raise TxRefused(self.address, codespace="market", code=8, log="bid has no lease")
        self.bid_states[bid] = replace(found, state=BidState.CLOSED)
        self.pending.append(event_of(kinds.BID_CLOSED, bid))
