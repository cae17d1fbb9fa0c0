"""A sender over the simulated chain without a wire, in virtual time.

Blocks come when the test says, and the node can be made to lie.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from devnet.chain.genesis import devnet_genesis
from devnet.chain.node import Node as SimulatedNode
from devnet.chain.rpc_methods import METHODS_BY_NAME, abci_query
from devnet.chain.rpc_params import RpcError as Refusal
from devnet.chain.rpc_params import from_json
from devnet.chain.tx import decode
from devnet.tenant import messages as tenant_messages
from lease.ids import DeploymentId, LeaseId, OrderId
from lease.resources import Price
from provider.chain import messages
from provider.chain.broadcast import Broadcaster
from provider.chain.rpc import AbciAnswer, QueryError, RpcError
from provider.chain.tx.journal import Journal
from provider.chain.tx.policy import Fees, Policy
from provider.protocols.chain import Head, Message
from provider.units import Coin
from tests.provider.chain.world import ATTRIBUTES, PROVIDER, TENANT, spec
from tests.provider.chain.world import signing_key as derived_key
from tests.world.virtual import VirtualClock

signing_key = functools.cache(derived_key)
"""Deriving a key takes longer than sending with it."""
_genesis = functools.cache(devnet_genesis)
US, THEM = signing_key(PROVIDER).address, signing_key(TENANT).address
DEPOSIT = Coin("uakt", Decimal(500000))
FEES = Fees(price=Coin("uakt", Decimal("0.025")), adjustment=1.5)


@dataclass
class DirectNode:
    """`provider.chain.connection.NodeClient`. `before` is called with each method and may raise or answer; `after` with
    an answer.
    """

    chain: SimulatedNode
    address: str = "direct"
    before: Callable[[str, dict[str, Any]], Any] = lambda method, params: None
    after: Callable[[str, Any], Any] = lambda method, answer: answer
    asked: list[str] = field(default_factory=list)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.asked.append(method)
        instead = self.before(method, params)
        await asyncio.sleep(0)
        if instead is not None:
            return instead
        known = METHODS_BY_NAME[method]
        try:
            answer = await known.handle(self.chain, from_json(known.params, params))
        except Refusal as refusal:
            raise RpcError(self.address, method, code=refusal.code, text=refusal.data) from None
        return self.after(method, answer)

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        self.asked.append(path)
        self.before(path, {"data": request})
        await asyncio.sleep(0)
        reply = abci_query(self.chain, path, request, height)
        if reply.code:
            raise QueryError(self.address, path, codespace="sdk", code=reply.code, log=reply.log)
        return AbciAnswer(self.after(path, reply.value), reply.height)

    async def head(self) -> Head:
        self.before("head", {})
        return Head(self.chain.genesis.chain_id, self.chain.height, 0.0, self.chain.catching_up)


@dataclass
class Direct:
    """`sent`: the messages of every transaction in a block, by height."""

    node: DirectNode
    us: Broadcaster
    tenant: Broadcaster

    @property
    def chain(self) -> SimulatedNode:
        return self.node.chain

    def blocks(self) -> dict[int, list[list[Message]]]:
        found: dict[int, list[list[Message]]] = {}
        for height, _, tx, _ in self.chain.blocks.txs():
            found.setdefault(height, []).append(list(decode(tx).messages))
        return found

    def count(self, name: str, *, code: int = 0) -> int:
        """Messages of that name in transactions that ended with `code`."""
        return sum(
            message.DESCRIPTOR.name == name
            for _, _, tx, result in self.chain.blocks.txs()
            if result.code == code
            for message in decode(tx).messages
        )

    async def publish(self, *dseqs: int, groups: int = 1, price: str = "100") -> None:
        named = tuple(spec(price, name=f"group{index}") for index in range(groups))
        await self.tenant.broadcast(
            [
                tenant_messages.create_deployment(
                    DeploymentId(THEM, dseq), groups=named, version=bytes(32), deposit=(5_000_000, "uact")
                )
                for dseq in dseqs
            ]
        )


@asynccontextmanager
async def ticking(chain: SimulatedNode, *, every: float = 0.5) -> AsyncIterator[None]:
    """A chain that produces blocks by itself."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(every)
            await chain.produce()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def sender(node: DirectNode, *, index: int = PROVIDER, journal: Journal | None = None, **policy: Any) -> Broadcaster:
    clock = VirtualClock()
    terms = Policy(**{"fees": FEES, "timeout_s": 2000, **policy})
    return Broadcaster(node, signing_key(index), head=node.head, clock=clock, policy=terms, journal=journal)


@asynccontextmanager
async def direct(*dseqs: int, groups: int = 1, journal: Journal | None = None, **policy: Any) -> AsyncIterator[Direct]:
    """A chain with the provider registered and an open order per deployment."""
    node = DirectNode(SimulatedNode(_genesis()))
    await node.chain.produce()
    us, tenant = sender(node, journal=journal, **policy), sender(node, index=TENANT)
    world = Direct(node, us, tenant)
    try:
        async with ticking(node.chain):
            uri = "https://p.example.com:8443"
            await us.broadcast([messages.create_provider(US, host_uri=uri, attributes=ATTRIBUTES)])
            if dseqs:
                await world.publish(*dseqs, groups=groups)
        yield world
    finally:
        await us.close()
        await tenant.close()


def bid_id(dseq: int, gseq: int = 1) -> LeaseId:
    return OrderId(THEM, dseq, gseq, 1).bid_by(US)


def bid_on(dseq: int, price: str = "50", *, gseq: int = 1, denom: str = "uact") -> Message:
    item = bid_id(dseq, gseq)
    return messages.create_bid(item, price=Price(denom, Decimal(price)), deposit=DEPOSIT, offer=spec().units)


def close_on(dseq: int, *, gseq: int = 1) -> Message:
    return messages.close_bid(bid_id(dseq, gseq))


async def outcomes(us: Broadcaster, wishes: Iterable[Message]) -> list[Any]:
    return await asyncio.gather(*(us.broadcast([wish]) for wish in wishes), return_exceptions=True)
