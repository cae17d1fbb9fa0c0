"""The fake chain with a node in front of it that is slow, away, behind, of another chain, has forgotten, or lies: it
calls every lease closed, in answers and in events. A second named node tells the truth, when it answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from lease.ids import DeploymentId, LeaseId, OrderId
from provider.chain.codec import lease_id_from_pb
from provider.chain.events import LEASE_CLOSED
from provider.errors import ChainError
from provider.protocols.chain import (
    Bid,
    BidState,
    Block,
    Head,
    Lease,
    LeaseAnswer,
    LeaseState,
    Message,
    Order,
    ProviderRecord,
    TxResult,
)  # fmt: skip
from tests.laws.simulation.fees import Fees
from tests.world.chain import FakeChain, event_of
from tests.world.faults import Faults

__all__ = ["SimulatedChain"]


class SimulatedChain(FakeChain):
    """`attempts` counts MsgCreateBid by order; `seen` hears of each lease that is asked for. Nothing is sent that the
    `fees` of the day do not allow.
    """

    def __init__(self, faults: Faults, fees: Fees, *, chain_id: str, seen: Callable[[LeaseId], None]) -> None:
        super().__init__(chain_id=chain_id)
        self._faults = faults
        self.fees = fees
        self._seen = seen
        self.on_bid: Callable[[OrderId], None] = lambda order: None
        self.closed_at: dict[LeaseId, float] = {}
        """Virtual seconds."""
        self.attempts: Counter[OrderId] = Counter()

    def close_lease(self, lease: LeaseId) -> None:
        self.closed_at[lease] = asyncio.get_running_loop().time()
        super().close_lease(lease)

    async def _ask(self) -> None:
        await self._faults.latency("slow node")
        if self._faults.dead or self._faults.hit("node away", 1.0) or self._faults.hit("node errors"):
            raise ChainError(self.address, "no answer")

    async def head(self) -> Head:
        await self._ask()
        back = self._faults.random.randint(1, 5) if self._faults.hit("node behind") else 0
        return Head(self.chain_id, self.height - back, 0.0, self._faults.hit("node catching up"))

    async def follow(self, *, after: int) -> AsyncIterator[Block]:
        async for block in super().follow(after=after):
            await self._faults.latency("slow node")
            lost = self._faults.hit("lost blocks")
            faked = [event_of(LEASE_CLOSED, each) for each in self._alive()] if self._faults.hit("lying node") else []
            events, missed = ((), block.height) if lost else ((*block.events, *faked), block.missed_from)
            yield replace(block, events=events, missed_from=missed)

    async def order(self, order: OrderId) -> Order | None:
        await self._ask()
        return await super().order(order)

    async def open_orders(self) -> Sequence[Order]:
        await self._ask()
        return [] if self._faults.hit("empty pages") else await super().open_orders()

    async def bid(self, bid: LeaseId) -> Bid | None:
        await self._ask()
        return await super().bid(bid)

    async def bids(self, provider: str, state: BidState) -> Sequence[Bid]:
        await self._ask()
        return [] if self._faults.hit("empty pages") else await super().bids(provider, state)

    async def bidders(self, order: OrderId) -> Mapping[str, BidState]:
        await self._ask()
        return await super().bidders(order)

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        self._seen(lease)
        await self._ask()
        answer = await super().lease(lease)
        if self._faults.hit("not found"):
            return replace(answer, lease=None)
        if self._faults.hit("wrong chain"):
            ended = answer.lease and replace(answer.lease, state=LeaseState.CLOSED)
            return LeaseAnswer(ended, answer.height + 1, "othernet-1")
        if self._faults.hit("lying node", 0.9):
            ended = answer.lease and replace(
                answer.lease, state=LeaseState.CLOSED, closed_on=self.height, close_reason=1
            )
            return replace(answer, lease=ended)
        if self._faults.hit("node behind"):
            return replace(answer, height=answer.height - self._faults.random.randint(1, 5))
        return answer

    async def lease_on_each_node(self, lease: LeaseId) -> Sequence[LeaseAnswer]:
        found = [await self.lease(lease)]
        if not self._faults.hit("node away"):
            found.append(replace(self.truth(lease), node="second"))
        return found

    async def end_signer(self, lease: Lease) -> str:
        await self._ask()
        return await super().end_signer(lease)

    def _alive(self) -> list[LeaseId]:
        return [each for each, found in self.lease_states.items() if not found.state.ended]

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]:
        await self._ask()
        found = await super().leases(provider=provider, states=states, deployment=deployment)
        return [] if self._faults.hit("empty pages") else found

    async def provider(self, address: str) -> ProviderRecord | None:
        await self._ask()
        return await super().provider(address)

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        await self._ask()
        await self.fees.pay(messages)
        return await self.send(messages)

    async def send(self, messages: Sequence[Message]) -> TxResult:
        """Into a block, paid or not; the answer may get lost."""
        for message in messages:
            if message.DESCRIPTOR.name == "MsgCreateBid":
                order = lease_id_from_pb(cast(Any, message).id).order
                self.attempts[order] += 1
                self.on_bid(order)
        result = await super().broadcast(messages)
        await self._faults.latency("slow node")
        if self._faults.hit("lost answers"):
            raise ChainError(self.address, "connection lost after the transaction was sent")
        return result
